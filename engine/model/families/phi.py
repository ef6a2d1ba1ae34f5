"""Phi-3, Phi-3.5, Phi-4-mini: fused matrices, heads that may be rotated in part, long contexts."""

from __future__ import annotations

from engine.language import tr
from engine.model.config import ModelConfig
from engine.model.families.common import refuse_quantised, unsupported
from engine.model.families.plain import read_plain, with_windows
from engine.model.json_object import JsonObject

PHI3: dict[str, object] = {
    "vocab_size": 32064,
    "hidden_size": 3072,
    "intermediate_size": 8192,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 4096,
    "original_max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "bos_token_id": 1,
    "eos_token_id": 32000,
}


def read_phi3(source: JsonObject) -> ModelConfig:
    """Phi-3 and 3.5 (mini and medium), Phi-4 and Phi-4-mini."""
    source = source.over(PHI3)
    refuse_quantised(source)
    config = with_windows(read_plain(source), source, lambda _: True)
    if config.rope.kind not in ("none", "longrope"):
        raise unsupported(
            tr("its positions are stretched by “{kind}”").format(kind=config.rope.kind)
        )
    return config
