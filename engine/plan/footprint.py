"""Bytes a model takes: weights, and keys and values per token."""

from __future__ import annotations

from dataclasses import dataclass

from engine.model.config import ModelConfig
from engine.model.weights import expected_tensors

FLOAT32 = 4


@dataclass(frozen=True, slots=True)
class Footprint:
    """Memory of one model on the fp32 CPU path."""

    weight_bytes: int
    kv_bytes_per_token: int


def footprint(config: ModelConfig) -> Footprint:
    """What the fp32 CPU path holds for this shape."""
    numbers = 0
    for shape in expected_tensors(config).values():
        size = 1
        for extent in shape:
            size *= extent
        numbers += size
    kv = 2 * config.num_layers * config.num_kv_heads * config.head_dim
    return Footprint(weight_bytes=numbers * FLOAT32, kv_bytes_per_token=kv * FLOAT32)
