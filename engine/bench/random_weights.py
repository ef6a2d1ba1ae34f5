"""Random weights of any shape, made quickly: speed depends on the shape, not on the values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.backend.native.library import Format
from engine.backend.native.matrix import LANES, Packed, empty, pack_rows
from engine.backend.native.pool import ThreadPool
from engine.backend.segment import Floats
from engine.model.config import ModelConfig
from engine.model.tensors import expected_tensors

STRETCH = 61
"""Different groups of 16 rows in random weights."""


class RandomWeights:
    """Weights of a shape, made on demand: one stretch of noise over and over.

    The spread keeps hidden states of the usual size through the layers.
    """

    def __init__(self, config: ModelConfig, seed: int = 0) -> None:
        self._shapes = expected_tensors(config)
        self._seed = seed
        self._stretches: dict[tuple[Format, int], NDArray[np.uint8]] = {}

    def float32(self, name: str) -> Floats:
        """The tensor as a C-contiguous fp32 array."""
        extents = self._shapes[name]
        if len(extents) == 1:
            return np.full(extents, 1.0 if "norm" in name else 0.01, dtype=np.float32)
        # A prime length, so that no two rows of a matrix repeat in step.
        return np.resize(self._noise(1_000_003, extents[1], name), extents)

    def packed(self, names: Sequence[str], fmt: Format, make: Callable[[], Packed]) -> Packed:
        """The matrices in native blocks: 16 rows at a time out of a packed stretch, at random."""
        del make  # packing billions of weights takes long
        rows, cols = sum(self._shapes[name][0] for name in names), self._shapes[names[0]][1]
        stretch = self._stretches.get((fmt, cols))
        if stretch is None:
            noise = self._noise(STRETCH * LANES * cols, cols, str(fmt)).reshape(-1, cols)
            stretch = pack_rows(ThreadPool(1), noise, fmt).data.reshape(STRETCH, -1)
            self._stretches[fmt, cols] = stretch
        matrix = empty(fmt, rows, cols)
        blocks = matrix.data.reshape(-1, stretch.shape[1])
        order = self._rng(names[0]).integers(0, STRETCH, len(blocks))
        np.take(
            stretch, order, axis=0, out=blocks, mode="clip"
        )  # "raise" would go by way of a copy
        return matrix

    def _noise(self, count: int, cols: int, name: str) -> Floats:
        spread = np.float32(cols**-0.5)
        return self._rng(name).standard_normal(count, dtype=np.float32) * spread

    def _rng(self, name: str) -> np.random.Generator:
        return np.random.default_rng([self._seed, *name.encode()])
