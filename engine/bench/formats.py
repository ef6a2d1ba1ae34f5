"""The cost of each type of weights: bytes, and time of plain decoding and of verification."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from statistics import median

import numpy as np

from engine.backend.native.matrix import NATIVE_KINDS, pack, unpack
from engine.backend.native.pool import shared_pool
from engine.bench.forward import DecoderSide, random_subject
from engine.bench.recipes import UNIFORM, tensor_kinds
from engine.model.config import ModelConfig
from engine.model.tensors import expected_tensors
from engine.model.weights.random_weights import RandomWeights
from engine.plan.footprint import weight_count

ROWS = (1, 8)
"""New tokens of a timed forward: plain decoding, and a draft of seven verified."""

CONTEXT = 64
PASSES = 2
"""Every type is loaded and timed so often, in turns with all others."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class FormatCost:
    """Costs of one type; seconds are medians.

    Attributes:
        error: largest difference of a weight held from what its type stands for; None where no
            matrix is held in the type, because it is widened at loading or rows do not divide.
        bytes_per_weight: held.
        seconds: of a forward by its rows.
        bytes_per_s: of weights that a forward of one token reads.
    """

    error: float | None
    bytes_per_weight: float
    seconds: dict[int, float]
    bytes_per_s: float

    @property
    def ratio(self) -> float:
        """Cost of verifying 8 tokens, in plain forwards."""
        return self.seconds[8] / self.seconds[1]


def measure_formats(
    config: ModelConfig,
    formats: Sequence[str],
    *,
    threads: int | None = None,
    runs: int = 5,
    progress: Progress = lambda _done, _total: None,
) -> dict[str, FormatCost]:
    """The cost of each of some of `UNIFORM` on random weights of a shape.

    One is in memory at a time; they take turns, so that a drift of the machine hits all alike.
    """
    times: dict[str, dict[int, list[float]]] = {name: {n: [] for n in ROWS} for name in formats}
    held: dict[str, int] = {}
    for turn in range(PASSES):
        for place, name in enumerate(formats):
            progress(turn * len(formats) + place, PASSES * len(formats))
            decoder = random_subject(config, name, threads).decoder
            held[name] = decoder.weight_bytes
            side = DecoderSide(decoder, CONTEXT)
            side.forwards(ROWS, 2)
            for rows, spent in zip(ROWS, side.forwards(ROWS, runs), strict=True):
                times[name][rows] += spent
    count = weight_count(config)
    costs = {}
    for name in formats:
        seconds = {rows: median(spent) for rows, spent in times[name].items()}
        speed = held[name] / seconds[1]
        costs[name] = FormatCost(unpacking_error(config, name), held[name] / count, seconds, speed)
    return costs


def unpacking_error(config: ModelConfig, name: str) -> float | None:
    """Largest difference between packed weights and what ggml's blocks say, on random blocks.

    Blocks have random bits, so that every value of every field of a block occurs.
    """
    kind = UNIFORM[name]
    weights = RandomWeights(config, tensor_kinds(config, name))
    matrices = [
        tensor
        for tensor, shape in expected_tensors(config).items()
        if len(shape) == 2 and weights.kind(tensor) == kind
    ]
    if not matrices:
        return None
    smallest = min(matrices, key=lambda tensor: prod(weights.shape(tensor)))
    packed = pack(shared_pool(), weights, [smallest], NATIVE_KINDS[kind])
    return float(np.abs(unpack(packed) - weights.float32(smallest)).max())
