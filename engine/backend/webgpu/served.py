"""Which models there are shaders for; without wgpu, for plans too."""

from __future__ import annotations

from engine.language import tr
from engine.model.config import ModelConfig

LARGEST_HEAD = 256
"""Numbers of a head, at most."""
MOST_HEADS = 256
"""Query heads, at most."""


def why_not_served(config: ModelConfig) -> str:
    """Return why WebGPU does not run a model; empty where it does."""
    if any(block.experts is not None for block in config.blocks):
        return tr("mixtures of experts run there through PyTorch only, so far")
    fusion = config.fusion
    odd = fusion is not None and fusion.kind == "eagle3" and config.hidden_size % 8
    if config.head_dim > LARGEST_HEAD or config.num_heads > MOST_HEADS or odd:
        return tr("Duotail's shaders are not made for its sizes")
    return ""
