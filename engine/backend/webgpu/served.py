"""Which models there are shaders for; without wgpu, for plans too."""

from __future__ import annotations

from engine.language import tr
from engine.model.config import ModelConfig

LARGEST_HEAD = 256
"""Numbers of a head, at most."""
MOST_HEADS = 256
"""Query heads, at most."""
MOST_EXPERTS = 256
"""Experts of a block, at most."""


def why_not_served(config: ModelConfig) -> str:
    """Return why WebGPU does not run a model; empty where it does."""
    if config.recurrent:
        return tr("Duotail runs models with recurrent states on the CPU only")
    experts = max((block.experts.count for block in config.blocks if block.experts), default=0)
    fusion = config.fusion
    odd = fusion is not None and fusion.kind == "eagle3" and config.hidden_size % 8
    many = config.num_heads > MOST_HEADS or experts > MOST_EXPERTS
    if config.head_dim > LARGEST_HEAD or many or odd:
        return tr("Duotail's shaders are not made for its sizes")
    return ""
