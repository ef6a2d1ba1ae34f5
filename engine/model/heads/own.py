"""The head that a model brings in its own files: the MTP block of Qwen3.5 to 3.8.

It tells the token after the next: one more block that attends, behind a matrix that joins what the
final norm gives with the next token's embedding. Embedding and output matrix are the model's.
"""

from __future__ import annotations

from dataclasses import replace

from engine.model.config import Fusion, ModelConfig
from engine.model.heads.description import DraftOnly


def mtp_head(target: ModelConfig) -> DraftOnly | None:
    """Return the MTP head that a model of this shape brings; None where it has none to bring."""
    block = next((block for block in target.blocks if block.delta is None), None)
    if not target.recurrent or block is None:
        return None
    fusion = Fusion("mtp", target.hidden_size)
    return DraftOnly(replace(target, blocks=(block,), fusion=fusion), own=True)
