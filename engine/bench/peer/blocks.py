"""Weights as a decoder of ours holds them, told in ggml's blocks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.backend.native.library import Format
from engine.backend.native.matrix import BLOCK, TYPES, ggml_rows, pack
from engine.backend.native.pool import shared_pool
from engine.model.config import ModelConfig
from engine.model.tensors import expected_tensors
from engine.model.weights.readable import Floats, Stretch, Weights


class BlockWeights:
    """Weights as packing in one native format leaves them, told in ggml's blocks.

    Packing rounds every row by itself, so these are the weights that a decoder holds.
    """

    def __init__(self, config: ModelConfig, weights: Weights, fmt: Format) -> None:
        self._shapes = expected_tensors(config)
        self._weights, self._format = weights, fmt

    def float32(self, name: str) -> Floats:
        """The tensor as it was before; vectors are never packed."""
        return self._weights.float32(name)

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor."""
        return self._shapes[name]

    def kind(self, name: str) -> str:
        """Return the type of a tensor, in ggml's words."""
        return TYPES[self._format] if len(self._shapes[name]) == 2 else "F32"

    def stretches(self, name: str) -> Iterator[Stretch]:
        """A matrix in one piece.

        Raises:
            ValueError: ggml cannot hold rows of this length in blocks of 32.
        """
        packed = pack(shared_pool(), self._weights, [name], self._format)
        cols = packed.struct.cols
        if cols % BLOCK:
            raise ValueError(f"rows of {cols} weights do not divide into blocks of {BLOCK}")
        rows = ggml_rows(packed.struct, 0, packed.struct.rows)
        floats = self._format in (Format.BF16, Format.F16)
        yield rows.view(np.uint16) if floats else rows
