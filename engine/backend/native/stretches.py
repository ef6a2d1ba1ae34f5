"""Rows of matrices for devices and files: as they are stored, or as the CPU packs them."""

from __future__ import annotations

import ctypes as c
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.backend.native.library import Format, Matrix
from engine.backend.native.matrix import LANES, pack
from engine.backend.native.memory import Arena
from engine.backend.native.pool import shared_pool
from engine.model.weights.readable import Readable, Stretch, Weights

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

PACKED = {kind: fmt for fmt, kind in TYPES.items()}
"""Formats that the native backend packs, by what files call them."""

_STRETCH_BYTES = 16 << 20
_NUMBERS = {Format.F32: np.float32, Format.F16: np.float16, Format.BF16: np.uint16}


def kind_of(weights: Weights, name: str) -> str:
    """Return how the model's files store a tensor; "F32" where they do not say."""
    return weights.kind(name) if isinstance(weights, Readable) else "F32"


def stored_rows(weights: Weights, names: Sequence[str], kind: str) -> Iterator[Stretch]:
    """Yield the rows of matrices one below the other: as stored where that is `kind`, or fp32."""
    for name in names:
        if isinstance(weights, Readable) and weights.kind(name) == kind:
            yield from weights.stretches(name)
        else:
            yield weights.float32(name)


def packed_rows(weights: Weights, names: Sequence[str], fmt: Format) -> Iterator[Stretch]:
    """Yield what the native backend packs of matrices, some megabytes at a time.

    So the weights are the CPU's, bit for bit; what is packed is freed when all of it is read.
    """
    packed = pack(shared_pool(), weights, names, fmt, Arena())
    struct = packed.struct
    step = max(_STRETCH_BYTES * struct.rows // packed.nbytes // LANES, 1) * LANES
    number = _NUMBERS.get(fmt)
    for first in range(0, struct.rows, step):
        rows = ggml_rows(struct, first, min(step, struct.rows - first))
        yield rows if number is None else rows.view(number)[:, : struct.cols]


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
