"""From timed forwards to what a device does: least squares, no cost below zero.

A forward takes a fixed time; every block of it a fixed time, and one more for each row beyond the
first; its weights by their type and the number of rows; its keys and values once, and once more, at
another speed, for every query that meets them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from engine.devices.calibration.small_model import Sample
from engine.machine.speeds import ProductSpeed

Doubles = NDArray[np.float64]

_LEAST_SHARE = 0.1
"""Least share of a forward's time that its products take, whatever the rest is fitted to."""

_MOST_BYTES_PER_S = 1e15


@dataclass(frozen=True, slots=True)
class Beside:
    """Time of forwards beyond their products; seconds.

    Attributes:
        forward, block, row: see `engine.machine.speeds.DeviceSpeeds`.
        kv_byte: seconds to read a byte of the KV cache once.
        query_byte: seconds more per byte for each query that attends to it.
    """

    forward: float = 0.0
    block: float = 0.0
    row: float = 0.0
    kv_byte: float = 0.0
    query_byte: float = 0.0

    def seconds(self, sample: Sample) -> float:
        """Return the seconds of a whole forward, without its products."""
        return float(np.dot(_beside(sample), self._numbers))

    @property
    def _numbers(self) -> tuple[float, ...]:
        return self.forward, self.block, self.row, self.kv_byte, self.query_byte

    def attention(self, most_queries: int) -> ProductSpeed | None:
        """Return the speed of attention at 1 and at `most_queries` queries, for `DeviceSpeeds`."""
        costs = [self.kv_byte + count * self.query_byte for count in (1, most_queries)]
        if min(costs) <= 0:
            return None
        return ProductSpeed((1, most_queries), (1 / costs[0], 1 / costs[1]))


def fit_beside(samples: Sequence[Sample]) -> Beside:
    """Fit `Beside` to forwards over different numbers of rows and blocks, widths and contexts.

    All forwards have weights of one type.
    """
    columns = sorted({sample.rows for sample in samples})
    equations = np.zeros((len(samples), 5 + len(columns)))
    for equation, sample in zip(equations, samples, strict=True):
        equation[:5] = _beside(sample)
        equation[5 + columns.index(sample.rows)] = sample.weight_bytes
        equation[:] /= sample.seconds  # so that shares of each count, not seconds
    return Beside(*map(float, least_squares(equations, np.ones(len(samples)))[:5]))


def fit_attention(
    samples: Sequence[Sample], beside: Beside, product: ProductSpeed, most_queries: int
) -> ProductSpeed | None:
    """Fit the speed of attention to keys and values of another type, all else being known.

    None where nothing was measured.
    """
    if not samples:
        return None
    known = replace(beside, kv_byte=0.0, query_byte=0.0)
    equations = np.array([_beside(sample)[3:] for sample in samples])
    rest = [
        sample.seconds
        - known.seconds(sample)
        - sample.weight_bytes * product.seconds_per_byte(sample.rows)
        for sample in samples
    ]
    shares = np.array([sample.seconds for sample in samples])
    found = least_squares(equations / shares[:, None], np.array(rest) / shares)
    return replace(known, kv_byte=float(found[0]), query_byte=float(found[1])).attention(
        most_queries
    )


def fit_product(samples: Sequence[Sample], beside: Beside) -> ProductSpeed:
    """Fit the speed of products to forwards of one model; fewer rows never take longer.

    Where fewer rows seem to take longer, their measurement was disturbed.
    """
    costs: dict[int, float] = {}
    for sample in sorted(samples, key=lambda sample: -sample.rows):
        seconds = max(sample.seconds - beside.seconds(sample), _LEAST_SHARE * sample.seconds)
        least = min(costs.values(), default=seconds / sample.weight_bytes)
        costs[sample.rows] = max(min(seconds / sample.weight_bytes, least), 1 / _MOST_BYTES_PER_S)
    ascending = sorted(costs.items())
    return ProductSpeed(
        tuple(rows for rows, _ in ascending), tuple(1 / cost for _, cost in ascending)
    )


def _beside(sample: Sample) -> tuple[float, ...]:
    """Return how often a forward spends each number of `Beside`."""
    kv = sample.blocks * sample.kv_bytes * sample.positions
    blocks = sample.blocks
    return 1, blocks, blocks * (sample.rows - 1), kv, kv * sample.rows * sample.queries


def least_squares(equations: Doubles, wanted: Doubles) -> Doubles:
    """x >= 0 with the smallest |equations x - wanted|, by Lawson and Hanson's active sets."""
    scale = np.linalg.norm(equations, axis=0)
    scale[scale == 0] = 1
    a = equations / scale
    x = np.zeros(a.shape[1])
    free = np.zeros(a.shape[1], dtype=bool)
    for _ in range(3 * a.shape[1]):
        gain = np.where(free, 0, a.T @ (wanted - a @ x))
        if gain.max(initial=0) <= 1e-10:
            break
        free[gain.argmax()] = True
        while True:
            best = np.zeros_like(x)
            best[free] = np.linalg.lstsq(a[:, free], wanted, rcond=None)[0]
            negative = free & (best <= 0)
            if not negative.any():
                break
            # As far as none falls below zero; who arrives there is fixed again.
            step = (x[negative] / np.maximum(x[negative] - best[negative], 1e-300)).min()
            x += step * (best - x)
            free &= x > 1e-14
            x[~free] = 0
        x = best
    found: Doubles = x / scale
    return found
