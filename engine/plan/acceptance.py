"""What is expected of drafts that nobody has measured with their target.

Chances that a draft's likeliest token is accepted, chosen so that `speculation.tree_tokens` gives
the acceptance lengths that were published: DGF with five blocks on MT-bench about 4.8 with 15
nodes (arXiv 2412.18934: 5.9 on HumanEval, and the speed-ups of both to each other); EAGLE-2 on
chats between 4 and 5.5 with 59 (arXiv 2406.16858); EAGLE-3 heads about 6 with 59 as published by
its authors (arXiv 2503.01840), and about 2.0 for chains of two as others trained them (AngelSlim's
table of Qwen3 models): 0.83 and 0.62.
"""

from __future__ import annotations

from engine.model.config import Fusion, FusionKind
from engine.plan.facts import DraftFacts, ModelFacts
from engine.plan.workspace import HEAD_WIDTH

STANDALONE = 0.7
"""Of a small model of the target's family."""

_HEADS: dict[FusionKind, float] = {"dgf": 0.75, "linear": 0.73, "eagle3": 0.7}
_PER_BLOCK, _MOST_BLOCKS = 0.0125, 5
"""What a further block of DGF adds, and how many do: a sixth one brought hardly more."""


def usual_draft(model: ModelFacts, acceptance: float | None = None) -> DraftFacts:
    """A draft as far as is known; `acceptance` where that is known as well."""
    fusion = model.footprint.fusion
    if acceptance is None:
        acceptance = _usual(fusion, len(model.footprint.blocks))
    return DraftFacts(model, acceptance, HEAD_WIDTH if fusion else 1)


def _usual(fusion: Fusion | None, blocks: int) -> float:
    if fusion is None:
        return STANDALONE
    more = min(blocks, _MOST_BLOCKS) - 1 if fusion.kind == "dgf" else 0
    return _HEADS[fusion.kind] + _PER_BLOCK * more
