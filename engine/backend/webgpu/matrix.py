"""Matrices on a device in their files' own numbers, in as many pieces as bindings ask for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.backend.ledger import Account, Purpose
from engine.backend.webgpu.formats import FORMATS, BlockFormat
from engine.backend.webgpu.gpu import Buffer, Gpu
from engine.errors import NotPossible
from engine.language import tr
from engine.model.weights.readable import Stretch
from engine.model.weights.stored import not_finite

LANES = 16
"""Rows of a piece are a multiple of these, so that no plane begins inside a word."""

_FLUSHED = 32 << 20
"""Bytes that may wait for the device while a matrix is copied."""


@dataclass(frozen=True, slots=True)
class MatrixPiece:
    """Some rows of a matrix.

    Attributes:
        first: number of the first row in the matrix.
        rows: how many there are.
        codes: buffer of the codes.
        scales: buffer of all other planes; of floats one without content.
        planes: words at which these begin.
    """

    first: int
    rows: int
    codes: Buffer
    scales: Buffer
    planes: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self.codes.size + self.scales.size)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class GpuMatrix:
    """[rows, cols], stored as `kind`."""

    kind: str
    rows: int
    cols: int
    pieces: tuple[MatrixPiece, ...]

    @property
    def form(self) -> BlockFormat:
        """The format."""
        return FORMATS[self.kind]

    @property
    def blocks(self) -> int:
        """Blocks of a row as kernels count them."""
        return self.form.blocks(self.cols) * self.form.numbers // self.form.width

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(piece.nbytes for piece in self.pieces)


def _piece_bytes(form: BlockFormat, rows: int, cols: int) -> tuple[int, int]:
    """Bytes of a piece's buffers of codes and of other planes."""
    blocks = rows * form.blocks(cols)
    beside = sum(_up(blocks * part, 4) for part in form.planes)
    return _up(blocks * form.parts[form.codes], 16), max(beside, 16)


def upload(
    gpu: Gpu,
    account: Account,
    kind: str,
    shape: tuple[int, int],
    stretches: Iterable[Stretch],
    name: str,
) -> GpuMatrix:
    """Bring a matrix to the device.

    Args:
        gpu: the device.
        account: where the buffers are entered, as long as the matrix lives.
        kind: of the stored numbers.
        shape: rows and columns.
        stretches: rows as `kind` has them, from top to bottom.
        name: of the matrix, for errors.

    Raises:
        OutOfMemory: beyond the budget, or the device is full.
        NotPossible: even a few rows are more than the device binds at once.
        UserFixable: numbers, or scales, that are not finite.
    """
    form, (rows, cols) = FORMATS[kind], shape
    most = gpu.most_bound // max(_piece_bytes(form, LANES, cols)) * LANES
    if most == 0:
        raise NotPossible(
            tr("{name} has rows of {cols} numbers, more than this GPU takes at once.").format(
                name=name, cols=cols
            ),
            tr("Run the model on the CPU."),
        )
    pieces, entries = [], []
    for first in range(0, rows, most):
        count = min(most, rows - first)
        sizes = _piece_bytes(form, count, cols)
        entries.append(account.take(Purpose.WEIGHTS, sum(sizes)))
        codes, scales = (gpu.buffer(size) for size in sizes)
        starts = np.cumsum([0, *(_up(count * form.blocks(cols) * part, 4) for part in form.planes)])
        planes = tuple(int(start) // 4 for start in starts[:-1])
        pieces.append(MatrixPiece(first, count, codes, scales, planes))
    matrix = GpuMatrix(kind, rows, cols, tuple(pieces))
    for entry in entries:
        entry.lasts_as_long_as(matrix)
    waiting = 0
    for start, some in _regrouped(stretches):
        if form.floats and not _are_numbers(some):
            raise not_finite(name)
        stored = _as_stored(form, some)
        waiting += stored.nbytes
        _fill(gpu, matrix, start, stored, name)
        if waiting > _FLUSHED:
            gpu.flush()
            waiting = 0
    gpu.flush()
    return matrix


def _fill(gpu: Gpu, matrix: GpuMatrix, start: int, stored: NDArray[np.uint8], name: str) -> None:
    form = matrix.form
    for piece in matrix.pieces:
        first, end = max(start, piece.first), min(start + len(stored), piece.first + piece.rows)
        if first >= end:
            continue
        parts = form.split(stored[first - start : end - start])
        if not form.finite(parts):
            raise not_finite(name)
        blocks = (first - piece.first) * form.blocks(matrix.cols)
        codes, *others = parts
        gpu.write(piece.codes, blocks * codes.shape[2], _in_words(codes))
        for part, plane in zip(others, piece.planes, strict=True):
            gpu.write(piece.scales, 4 * plane + blocks * part.shape[2], _in_words(part))


def _regrouped(stretches: Iterable[Stretch]) -> Iterator[tuple[int, Stretch]]:
    """Yield the rows with their numbers, a multiple of 16 at a time but for the last."""
    start, kept = 0, list[Stretch]()
    for stretch in stretches:
        kept.append(stretch)
        together = kept[0] if len(kept) == 1 else np.concatenate(kept)
        whole = len(together) // LANES * LANES
        if whole:
            yield start, together[:whole]
        start, rest = start + whole, together[whole:]
        kept = [rest.copy()] if len(rest) else []
    if kept:
        yield start, kept[0]


def _are_numbers(rows: Stretch) -> bool:
    if rows.dtype == np.uint16:  # the bits of BF16
        return not (rows & 0x7F80 == 0x7F80).any()
    return bool(np.isfinite(rows).all())


def _as_stored(form: BlockFormat, rows: Stretch) -> NDArray[np.uint8]:
    """Rows as bytes; floats with zeros behind each row, to whole blocks."""
    if not form.floats:
        return np.ascontiguousarray(rows).view(np.uint8)
    more = -rows.shape[1] % form.numbers
    padded = np.pad(rows, ((0, 0), (0, more))) if more else np.ascontiguousarray(rows)
    return padded.view(np.uint8)


def _in_words(part: NDArray[np.uint8]) -> NDArray[np.uint8]:
    flat = part.reshape(-1)
    return np.pad(flat, (0, -len(flat) % 4)) if len(flat) % 4 else flat


def _up(count: int, step: int) -> int:
    return count + -count % step
