"""Packed weights: in the blocks that the native products read, and as rows of ggml's blocks.

A native block holds 32 columns of 16 rows (engine/native/pack.c): for each group of four columns
the 16 rows' bytes side by side, then the 16 scales. A ggml block holds 32 columns of one row, its
scale first. Both put column j of a 4-bit block beside column j + 16, so only whole words move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from engine.backend.native.library import Format, Matrix, library, pointer
from engine.backend.native.memory import UNPLANNED, Arena
from engine.backend.native.pool import ThreadPool
from engine.model.weights.readable import Floats, Readable, Stretch, Weights
from engine.model.weights.stored import not_finite

LANES = 16

NATIVE_KINDS = {
    "Q4_0": Format.Q4,
    "Q8_0": Format.Q8,
    **{fmt.name: fmt for fmt in Format if fmt not in (Format.Q4, Format.Q8)},
}
"""Kinds of stored tensors that there are products for, by ggml's names."""

PACKABLE = (Format.Q4, Format.Q8, Format.BF16, Format.F16, Format.F32)
"""Formats that matrices of floats can be packed in."""

_SOURCES = {"float32": Format.F32, "float16": Format.F16, "uint16": Format.BF16}
_STORED = "uint8"
_NOT_FINITE = -16


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Packed:
    """A matrix [rows, cols] in native blocks; `data` keeps the memory that `struct` points to.

    `mapped`: the memory is a file's, which the system may drop and read again.
    """

    struct: Matrix
    data: NDArray[np.uint8]
    mapped: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.data.nbytes


EMPTY = Matrix(None, 0, 0, 0)


@runtime_checkable
class PackedWeights(Protocol):
    """Weights that may have matrices in native blocks already."""

    def packed(self, names: Sequence[str], fmt: Format, make: Callable[[], Packed]) -> Packed:
        """The named matrices, one below the other; `make` packs them."""
        ...


def pack(
    pool: ThreadPool,
    weights: Weights,
    names: Sequence[str],
    fmt: Format,
    arena: Arena = UNPLANNED,
) -> Packed:
    """The named matrices, one below the other: packed before, as they are stored, or quantised.

    Raises:
        UserFixable: a weight is not a finite number.
    """

    def make() -> Packed:
        if isinstance(weights, Readable) and _direct(weights, names, fmt):
            shapes = [weights.shape(name) for name in names]
            # Rows are packed in groups of 16, which must not straddle two matrices.
            if all(rows % LANES == 0 for rows, _ in shapes[:-1]):
                rows = sum(rows for rows, _ in shapes)
                stretches = ((name, part) for name in names for part in weights.stretches(name))
                return _pack(pool, stretches, empty(fmt, rows, shapes[0][1], arena))
        floats = np.concatenate([weights.float32(name) for name in names])
        return pack_rows(pool, floats, fmt, arena)

    return weights.packed(names, fmt, make) if isinstance(weights, PackedWeights) else make()


def _direct(weights: Readable, names: Sequence[str], fmt: Format) -> bool:
    """Tell whether the matrices are stored as floats or in `fmt`; else they are widened first."""
    kinds = {weights.kind(name) for name in names}
    return kinds <= {"F32", "F16", "BF16"} or all(NATIVE_KINDS.get(kind) == fmt for kind in kinds)


def pack_rows(pool: ThreadPool, rows: Floats, fmt: Format, arena: Arena = UNPLANNED) -> Packed:
    """A matrix in `fmt`."""
    return _pack(pool, [("a matrix", rows)], empty(fmt, len(rows), rows.shape[1], arena))


def empty(fmt: Format, rows: int, cols: int, arena: Arena = UNPLANNED) -> Packed:
    """Room for a matrix."""
    nbytes = library().dt_packed_bytes(fmt, rows, cols)
    if nbytes < 0:
        raise ValueError(f"{rows} x {cols} weights do not fit the blocks of {fmt.name}")
    data = arena.take(nbytes)
    return Packed(Matrix(pointer(data), fmt, rows, cols), data)


def _pack(pool: ThreadPool, stretches: Iterable[tuple[str, Stretch]], packed: Packed) -> Packed:
    whole = packed.struct
    first = 0
    for name, part in stretches:
        source = np.ascontiguousarray(part)
        place = (first, len(part), whole.rows, whole.cols, pointer(packed.data))
        handle, fmt = pool.handle, whole.format
        if source.dtype.name == _STORED:
            failed = library().dt_repack_rows(handle, fmt, pointer(source), *place)
        else:
            kind = _SOURCES[source.dtype.name]
            failed = library().dt_pack_rows(handle, fmt, kind, pointer(source), *place)
        if failed == _NOT_FINITE:
            raise not_finite(name)
        if failed:
            raise ValueError(f"{name} cannot be packed")
        first += len(part)
    return packed


def unpack(packed: Packed) -> Floats:
    """The whole matrix back in fp32 (for tests)."""
    rows = np.empty((packed.struct.rows, packed.struct.cols), dtype=np.float32)
    for row in range(packed.struct.rows):
        library().dt_unpack_row(packed.struct, row, pointer(rows[row]))
    return rows
