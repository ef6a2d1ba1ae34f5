"""What a weight format costs in quality: perplexity on the same text.

The cost has two parts, the rounding of weights and, in 8 and 4 bits, that of activations to 8 bits.
The first is measured alone by giving the rounded weights to the fp32 path.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp

import numpy as np

from engine.backend.cpu import NATIVE_FORMATS
from engine.backend.decoder import Decoder
from engine.backend.native.library import Format
from engine.backend.native.matrix import pack_rows, unpack
from engine.backend.native.pool import shared_pool
from engine.bench.forward import decoder_for
from engine.commands import WeightFormat
from engine.model.config import ModelConfig
from engine.model.weights.readable import Floats, Weights

CHUNK = 64
ROUNDED_ACTIVATIONS = (WeightFormat.Q8, WeightFormat.Q4)


@dataclass(frozen=True, slots=True)
class Quality:
    """Of one format; `weights_only` with its weights but fp32 activations, where that differs."""

    perplexity: float
    weights_only: float | None = None

    @property
    def activations_cost(self) -> float | None:
        """By how much rounding activations raises the perplexity, as a share."""
        return None if self.weights_only is None else self.perplexity / self.weights_only - 1


def measure_quality(
    config: ModelConfig,
    weights: Weights,
    formats: Sequence[WeightFormat],
    passages: Sequence[Sequence[int]],
    threads: int | None = None,
) -> Iterator[tuple[WeightFormat, Quality]]:
    """Perplexity in each format; the rounded weights alone only if F32 is among the formats."""
    for fmt in formats:
        whole = perplexity(decoder_for(config, weights, fmt, threads), passages)
        alone = None
        if fmt in ROUNDED_ACTIVATIONS and WeightFormat.F32 in formats:
            rounded = RoundedWeights(weights, NATIVE_FORMATS[fmt])
            alone = perplexity(decoder_for(config, rounded, WeightFormat.F32), passages)
        yield fmt, Quality(whole, alone)


def perplexity(decoder: Decoder, passages: Sequence[Sequence[int]]) -> float:
    """exp of the mean negative log likelihood of each passage's tokens but the first."""
    nats, count = 0.0, 0
    for tokens in passages:
        state = decoder.new_state(len(tokens))
        for start in range(0, len(tokens) - 1, CHUNK):
            piece = tokens[start : min(start + CHUNK, len(tokens) - 1)]
            logits = decoder.forward(state, piece).logits.astype(np.float64)
            state.commit(range(len(piece)))
            logits -= logits.max(axis=1, keepdims=True)
            true = tokens[start + 1 : start + 1 + len(piece)]
            nats -= logits[np.arange(len(piece)), true].sum()
            nats += np.log(np.exp(logits).sum(axis=1)).sum()
            count += len(piece)
    return exp(nats / count)


class RoundedWeights:
    """Weights as a native format holds them, widened again."""

    def __init__(self, weights: Weights, fmt: Format) -> None:
        self._weights, self._format = weights, fmt

    def float32(self, name: str) -> Floats:
        """The tensor; vectors are never rounded."""
        tensor = self._weights.float32(name)
        return (
            tensor if tensor.ndim == 1 else unpack(pack_rows(shared_pool(), tensor, self._format))
        )
