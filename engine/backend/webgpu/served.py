"""Which models there are shaders for; without wgpu, for plans too."""

from __future__ import annotations

from engine.backend.webgpu.sizes import attending_of, deltas_of
from engine.language import tr
from engine.model.config import ModelConfig

LARGEST_HEAD = 256
"""Numbers of a head, at most."""
MOST_HEADS = 256
"""Query heads, or heads of a state, at most."""
WIDEST_KEY = 128
"""Numbers of a key in a state, at most."""
MOST_EXPERTS = 256
"""Experts of a block, at most."""


def why_not_served(config: ModelConfig) -> str:
    """Return why WebGPU does not run a model; empty where it does."""
    experts = max((block.experts.count for block in config.blocks if block.experts), default=0)
    fusion = config.fusion
    odd = fusion is not None and fusion.steps.feature_norm and config.hidden_size % 8
    attending = list(attending_of(config))
    many = any(block.heads > MOST_HEADS for block in attending) or experts > MOST_EXPERTS
    many |= any(
        delta.key_dim > WIDEST_KEY or delta.value_heads > MOST_HEADS for delta in deltas_of(config)
    )
    if any(block.head_dim > LARGEST_HEAD for block in attending) or many or odd:
        return tr("Duotail's shaders are not made for its sizes")
    return ""
