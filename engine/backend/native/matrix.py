"""Packed weights: quantised at load, in the blocks that the native products read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

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


@runtime_checkable
class PackedWeights(Protocol):
    """Weights that may have matrices in native blocks already."""

    def packed(self, names: Sequence[str], fmt: Format, make: Callable[[], Packed]) -> Packed:
        """The named matrices, one below the other; `make` packs them from fp32."""
        ...


def pack(pool: ThreadPool, weights: Weights, names: Sequence[str], fmt: Format) -> Packed:
    """The named matrices, one below the other, in `fmt`: packed before, or quantised here."""

    def make() -> Packed:
        return pack_rows(pool, [weights.float32(name) for name in names], fmt)

    return weights.packed(names, fmt, make) if isinstance(weights, PackedWeights) else make()


def pack_rows(pool: ThreadPool, parts: Sequence[Floats], fmt: Format) -> Packed:
    """Matrices of one width, one below the other, quantised to `fmt`.

    Rows are packed in groups of 16, so a matrix whose height is no multiple of 16 must be last
    or is joined with its successor first.
    """
    aligned_heights = all(part.shape[0] % LANES == 0 for part in parts[:-1])
    if not aligned_heights:
        parts = [np.concatenate(parts)]
    packed = empty(fmt, sum(len(part) for part in parts), parts[0].shape[1])
    first = 0
    for part in parts:
        _pack_part(pool, part, first, packed)
        first += len(part)
    return packed


def empty(fmt: Format, rows: int, cols: int) -> Packed:
    """Room for a matrix."""
    data = aligned(library().dt_packed_bytes(fmt, rows, cols))
    return Packed(Matrix(pointer(data), fmt, rows, cols), data)


def _pack_part(pool: ThreadPool, part: Floats, first: int, packed: Packed) -> None:
    source, whole = np.ascontiguousarray(part), packed.struct
    count, cols = source.shape
    arguments = (pointer(source), first, count, whole.rows, cols, pointer(packed.data))
    if library().dt_pack(pool.handle, whole.format, *arguments):
        raise ValueError("this matrix cannot be packed")


def unpack(packed: Packed) -> Floats:
    """The whole matrix back in fp32 (for tests)."""
    rows = np.empty((packed.struct.rows, packed.struct.cols), dtype=np.float32)
    for row in range(packed.struct.rows):
        library().dt_unpack_row(packed.struct, row, pointer(rows[row]))
    return rows
