"""Packed native weights as rows of ggml blocks: the same integers and scales in another order.

A native block holds 32 columns of 16 rows (engine/native/pack.c): for each group of four columns
the 16 rows' bytes side by side, then the 16 scales. A ggml block holds 32 columns of one row, its
scale first. Both put column j of a 4-bit block beside column j + 16, so only whole words move.
"""

from __future__ import annotations

import ctypes as c

import numpy as np
from numpy.typing import NDArray

from engine.backend.native.library import Format, Matrix
from engine.backend.native.matrix import LANES

BLOCK = 32

TYPES = {
    Format.Q4: "Q4_0",
    Format.Q8: "Q8_0",
    Format.BF16: "BF16",
    Format.F16: "F16",
    Format.F32: "F32",
}
"""ggml's names of the formats that matrices of floats are packed in."""

_WORDS = {Format.Q4: 4, Format.Q8: 8}
"""Four-byte words of integers per row and block."""


def ggml_rows(matrix: Matrix, first: int, count: int) -> NDArray[np.uint8]:
    """Rows first..first+count-1 as ggml stores them, uint8 [count, bytes of a row].

    The last block of a row is filled with zeros.
    """
    begin, end = first // LANES, -(-(first + count) // LANES)
    skip = first - begin * LANES
    fmt, blocks = Format(matrix.format), -(-matrix.cols // BLOCK)
    rows = _quantised if fmt in _WORDS else _floats
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


def _floats(matrix: Matrix, fmt: Format, blocks: int, groups: range) -> NDArray[np.uint8]:
    number = np.dtype("<u4" if fmt is Format.F32 else "<u2")
    size = blocks * BLOCK * LANES * number.itemsize
    source = _memory(matrix, size, groups).view(number).reshape(len(groups), -1, LANES)
    rows = np.ascontiguousarray(source.transpose(0, 2, 1))
    return rows.view(np.uint8).reshape(len(groups) * LANES, -1)


def _memory(matrix: Matrix, group_bytes: int, groups: range) -> NDArray[np.uint8]:
    """The bytes of some groups of 16 rows, [groups, bytes of a group], not copied."""
    if not matrix.data:
        raise ValueError("an empty matrix")
    start = matrix.data + groups.start * group_bytes
    raw = (c.c_uint8 * (len(groups) * group_bytes)).from_address(start)
    return np.ctypeslib.as_array(raw).reshape(len(groups), group_bytes)
