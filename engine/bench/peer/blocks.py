"""Packed native weights as rows of ggml blocks: the same integers and scales in another order.

A native block holds 32 columns of 16 rows (engine/native/pack.c): for each group of four columns
the 16 rows' bytes side by side, then the 16 scales. A ggml block holds 32 columns of one row, its
scale first. Both put column j of a 4-bit block beside column j + 16, so only whole words move.
"""

from __future__ import annotations

import ctypes as c
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from engine.backend.native.library import Format, Matrix
from engine.backend.native.matrix import LANES, pack
from engine.backend.native.pool import shared_pool
from engine.backend.segment import Floats, Stretch, Weights
from engine.model.config import ModelConfig
from engine.model.tensors import expected_tensors

BLOCK = 32

TYPES = {Format.Q4: "Q4_0", Format.Q8: "Q8_0", Format.BF16: "BF16", Format.F16: "F16"}
"""ggml's names of the native formats."""

_WORDS = {Format.Q4: 4, Format.Q8: 8}
"""Four-byte words of integers per row and block."""


class PackedWeights:
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
        """How a tensor is stored, in ggml's words."""
        return TYPES[self._format] if len(self._shapes[name]) == 2 else "F32"

    def stretches(self, name: str) -> Iterator[Stretch]:
        """A matrix in one piece."""
        packed = pack(shared_pool(), self._weights, [name], self._format)
        rows = ggml_rows(packed.struct, 0, packed.struct.rows)
        floats = self._format in (Format.BF16, Format.F16)
        yield rows.view(np.uint16) if floats else rows


def ggml_rows(matrix: Matrix, first: int, count: int) -> NDArray[np.uint8]:
    """Rows first..first+count-1 as ggml stores them, uint8 [count, bytes of a row].

    Raises:
        ValueError: ggml cannot hold rows of this length in blocks of 32.
    """
    if matrix.cols % BLOCK:
        raise ValueError(f"rows of {matrix.cols} weights do not divide into blocks of {BLOCK}")
    begin, end = first // LANES, -(-(first + count) // LANES)
    skip = first - begin * LANES
    fmt, blocks = Format(matrix.format), matrix.cols // BLOCK
    rows = _halves if fmt in (Format.BF16, Format.F16) else _quantised
    return rows(matrix, fmt, blocks, range(begin, end))[skip : skip + count]


def _quantised(matrix: Matrix, fmt: Format, blocks: int, groups: range) -> NDArray[np.uint8]:
    words = _WORDS[fmt]
    native = np.dtype([("weights", "<u4", (words, LANES)), ("scales", "<u2", (LANES,))])
    ggml = np.dtype([("scale", "<u2"), ("weights", "<u4", (words,))])
    source = _memory(matrix, blocks * native.itemsize, groups).view(native)
    rows = np.empty((len(groups), LANES, blocks), dtype=ggml)
    rows["scale"] = source["scales"].transpose(0, 2, 1)
    rows["weights"] = source["weights"].transpose(0, 3, 1, 2)
    return rows.view(np.uint8).reshape(len(groups) * LANES, -1)


def _halves(matrix: Matrix, _fmt: Format, blocks: int, groups: range) -> NDArray[np.uint8]:
    size = blocks * BLOCK * LANES * 2
    source = _memory(matrix, size, groups).view("<u2").reshape(len(groups), -1, LANES)
    rows = np.ascontiguousarray(source.transpose(0, 2, 1))
    return rows.view(np.uint8).reshape(len(groups) * LANES, -1)


def _memory(matrix: Matrix, group_bytes: int, groups: range) -> NDArray[np.uint8]:
    """The bytes of some groups of 16 rows, [groups, bytes of a group], not copied."""
    if not matrix.data:
        raise ValueError("an empty matrix")
    start = matrix.data + groups.start * group_bytes
    raw = (c.c_uint8 * (len(groups) * group_bytes)).from_address(start)
    return np.ctypeslib.as_array(raw).reshape(len(groups), group_bytes)
