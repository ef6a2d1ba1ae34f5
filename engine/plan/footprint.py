"""Bytes a model takes: weights, and keys and values per token."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from engine.commands import WeightFormat
from engine.language import later, tr
from engine.model.config import ModelConfig
from engine.model.other_family import OtherConfig
from engine.model.tensors import expected_tensors

BYTES_PER_WEIGHT = {
    WeightFormat.Q4: 18 / 32,
    WeightFormat.Q8: 34 / 32,
    WeightFormat.BF16: 2.0,
    WeightFormat.F32: 4.0,
}

WORDS = {
    WeightFormat.Q4: later("4-bit integers"),
    WeightFormat.Q8: later("8-bit integers"),
    WeightFormat.BF16: later("16-bit floats"),
    WeightFormat.F32: later("32-bit floats"),
    WeightFormat.STORED: later("the types that its file has"),
}


@dataclass(frozen=True, slots=True)
class Footprint:
    """Memory of one model on the CPU; `kind` names the types of stored weights, as in "Q4_K_M"."""

    format: WeightFormat
    weight_bytes: int
    kv_bytes_per_token: int
    kind: str = ""

    @property
    def words(self) -> str:
        """How the weights are held."""
        return self.kind or tr(WORDS[self.format])


def weight_count(config: ModelConfig) -> int:
    """Numbers in all tensors."""
    return sum(prod(shape) for shape in expected_tensors(config).values())


def footprint(config: ModelConfig, weights: WeightFormat) -> Footprint:
    """What the CPU path holds for this shape; keys and values are fp16, on the F32 path fp32."""
    return Footprint(
        format=weights,
        weight_bytes=int(weight_count(config) * BYTES_PER_WEIGHT[weights]),
        kv_bytes_per_token=_kv_numbers(config) * (4 if weights is WeightFormat.F32 else 2),
    )


def stored_footprint(config: ModelConfig, nbytes: int, kind: str) -> Footprint:
    """The same where matrices are held as they are stored, in so many bytes."""
    return Footprint(WeightFormat.STORED, nbytes, _kv_numbers(config) * 2, kind)


def other_footprint(config: OtherConfig, weight_count: int, weights: WeightFormat) -> Footprint:
    """The same for a model that runs through transformers, all of it in one type of floats."""
    size = int(BYTES_PER_WEIGHT[weights])
    return Footprint(weights, weight_count * size, config.kv_numbers_per_token * size)


def _kv_numbers(config: ModelConfig) -> int:
    """Keys and values of a token."""
    return 2 * config.num_layers * config.num_kv_heads * config.head_dim
