"""Packed weights: quantised at load, in the blocks that the native products read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.backend.native.library import Format, Matrix, aligned, library, pointer
from engine.backend.native.pool import ThreadPool
from engine.backend.segment import Floats, Weights

LANES = 16


@dataclass(frozen=True, slots=True)
class Packed:
    """A matrix [rows, cols] in native blocks; `data` keeps the memory that `struct` points to."""

    struct: Matrix
    data: NDArray[np.uint8]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.data.nbytes


EMPTY = Matrix(None, 0, 0, 0)


def pack(pool: ThreadPool, weights: Weights, names: Sequence[str], fmt: Format) -> Packed:
    """The named matrices, one below the other, quantised to `fmt`.

    Rows are packed in groups of 16, so a matrix whose height is no multiple of 16 must be last
    or is joined with its successor first.
    """
    parts = [weights.float32(name) for name in names]
    aligned_heights = all(part.shape[0] % LANES == 0 for part in parts[:-1])
    if not aligned_heights:
        parts = [np.concatenate(parts)]
    rows, cols = sum(part.shape[0] for part in parts), parts[0].shape[1]
    data = aligned(library().dt_packed_bytes(fmt, rows, cols))
    first = 0
    for part in parts:
        _pack_rows(pool, fmt, part, first, rows, data)
        first += part.shape[0]
    return Packed(Matrix(pointer(data), fmt, rows, cols), data)


def _pack_rows(
    pool: ThreadPool, fmt: Format, part: Floats, first: int, rows: int, data: NDArray[np.uint8]
) -> None:
    source = np.ascontiguousarray(part)
    count, cols = source.shape
    arguments = (pointer(source), first, count, rows, cols, pointer(data))
    if library().dt_pack(pool.handle, fmt, *arguments):
        raise ValueError("this matrix cannot be packed")


def unpack(packed: Packed) -> Floats:
    """The whole matrix back in fp32 (for tests)."""
    rows = np.empty((packed.struct.rows, packed.struct.cols), dtype=np.float32)
    for row in range(packed.struct.rows):
        library().dt_unpack_row(packed.struct, row, pointer(rows[row]))
    return rows
