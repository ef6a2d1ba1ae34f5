"""Read tensors from files: some rows at a time, and turned into what the decoder computes with."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from engine.errors import UserFixable
from engine.language import tr
from engine.model.weights.parts import StoredPart
from engine.model.weights.stored import StoredTensor, not_finite

STRETCH_BYTES = 8 << 20
FLOATS = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}
"""Kinds of floats, and the types of numpy that hold their bits."""
INTEGERS = {"I64": np.int64, "I32": np.int32, "U32": np.uint32}
BYTES = "U8"
"""Bytes of a format that the caller knows."""
_SMALL = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4", "IQ4_NL", "IQ4_XS")
_K = ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "TQ1_0", "TQ2_0")
_I = ("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S")
WIDENED = frozenset((*_SMALL, *_K, *_I))
"""Kinds of blocks that the gguf package turns into floats."""
_GROUP = 16
"""Stretches are multiples of so many rows: backends pack as many at a time."""

_EVEN = np.uint64(0x0F0F0F0F0F0F0F0F)
_NIBBLE = np.uint64(4)
_BLOCK = np.dtype([("scale", np.uint8), ("numbers", "V16")])
"""MXFP4 in ggml: 32 numbers, two in a byte, behind their scale."""


class FoundPart(NamedTuple):
    """A part of a stored tensor, and where the file holds that tensor and its scales.

    Attributes:
        native: kinds of ggml's blocks that are handed on as stored, uint8 [rows, bytes per row].
            Other blocks are widened: to float32 where `native` is empty, and to float16 beside
            native blocks, where memory counts.
    """

    part: StoredPart
    tensor: StoredTensor
    scales: StoredTensor | None = None
    native: frozenset[str] = frozenset()

    @property
    def kind(self) -> str:
        """The type of its stretches, in ggml's words."""
        if self.scales is not None:
            return "MXFP4"
        return _handed_on(self.tensor.kind, self.native)

    @property
    def tensors(self) -> tuple[StoredTensor, ...]:
        """All stored tensors it is read from."""
        return (self.tensor,) if self.scales is None else (self.tensor, self.scales)


class TensorReader:
    """Tensors in files, by name; see `engine.model.weights.readable.Readable`.

    To read a tensor is to take its rows out of the stored one, and then, as its `StoredPart` says:
    put MXFP4 numbers behind their scales, widen blocks to floats, put rows of heads in order, add
    one. Some rows are in memory at a time. Reading raises `UserFixable` where a file is gone or has
    become shorter.

    Attributes:
        parts: where each tensor is stored.
    """

    __slots__ = ("parts",)

    def __init__(self, parts: Mapping[str, FoundPart]) -> None:
        self.parts = parts

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors, as stored."""
        return sum(tensor.nbytes for tensor in self._stored())

    @property
    def files(self) -> tuple[Path, ...]:
        """The weight files."""
        return tuple(sorted({tensor.file for tensor in self._stored()}))

    def names(self) -> tuple[str, ...]:
        """Names of all tensors."""
        return tuple(self.parts)

    def __contains__(self, name: str) -> bool:
        return name in self.parts

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor; `KeyError` when there is none of that name."""
        return self.parts[name].part.shape

    def kind(self, name: str) -> str:
        """The type of the stretches, in ggml's words: "F32", "F16", "BF16", "Q4_K", ..."""
        return self.parts[name].kind

    def stored_bytes(self, name: str) -> int:
        """Bytes that a tensor takes in its file."""
        return _stored_bytes(self.parts[name])

    def float32(self, name: str, *, check_finite: bool = False) -> NDArray[np.float32]:
        """Return a C-contiguous float32 copy of a tensor.

        Raises:
            UserFixable: the file is gone or shorter, or it holds NaN or infinity and
                `check_finite` is set.
        """
        found = self.parts[name]._replace(native=frozenset())
        part, tensor = found.part, found.tensor
        if found.scales is None:
            check_readable(part.stored, tensor)
        if len(part.shape) == 1:
            values = _vector(found)
        else:
            values = np.empty(part.shape, dtype=np.float32)
            whole = part.shape == part.whole
            rows = values.reshape(tensor.rows, tensor.columns) if whole else values
            done = 0
            for stretch in _stretches(found):
                rows[done : done + len(stretch)] = widened(stretch, found.kind)
                done += len(stretch)
        if check_finite and not np.isfinite(values).all():
            raise not_finite(f"{part.stored} in {tensor.file}")
        return values

    def stretches(self, name: str) -> Iterator[NDArray[Any]]:
        """Yield a tensor's rows as they are stored, some megabytes at a time (a multiple of 16).

        The last dimension makes the rows; what three dimensions hold (a matrix per expert) counts
        as one matrix below the other, and of four dimensions the last two make the rows together.
        They come as float32, float16, or uint16 for the bits of BF16; as bytes where they are
        blocks. A stretch is valid until the next one is asked for.
        """
        return _stretches(self.parts[name])

    def integers(self, name: str) -> NDArray[Any]:
        """Return a tensor of `INTEGERS` or F32, flattened, in its stored type.

        Raises:
            KeyError: its kind is another.
        """
        tensor = self.parts[name].tensor
        view = {**INTEGERS, "F32": np.float32}[tensor.kind]
        parts = [part.copy() for part in _raw_rows(tensor, 0, None, tensor.row_bytes)]
        return np.concatenate(parts).reshape(-1).view(view)

    def as_floats(self) -> Self:
        """Return the same tensors, all blocks widened as they are read."""
        wide = copy(self)
        wide.parts = {name: each._replace(native=frozenset()) for name, each in self.parts.items()}
        return wide

    def same_bytes(self, first: str, second: str) -> bool:
        """Return whether two stored tensors agree in type, shape and every byte."""
        a, b = self.parts[first].tensor, self.parts[second].tensor
        if (a.kind, a.shape) != (b.kind, b.shape):
            return False
        pairs = zip(*(_raw_rows(one, 0, None, one.row_bytes) for one in (a, b)), strict=True)
        return all(np.array_equal(left, right) for left, right in pairs)

    def found(self, part: StoredPart) -> FoundPart:
        """Return a part of the tensors that this reader holds under their stored names."""
        whole = self.parts[part.stored]
        scales = None if part.scales is None else self.parts[part.scales[0]].tensor
        return FoundPart(part, whole.tensor, scales, whole.native)

    def _stored(self) -> set[StoredTensor]:
        return {tensor for found in self.parts.values() for tensor in found.tensors}


def stored_parts(
    tensors: Mapping[str, StoredTensor], native: Collection[str] = ()
) -> dict[str, FoundPart]:
    """Return every stored tensor as a part of its own, under its stored name."""
    kinds = frozenset(native)
    return {
        name: FoundPart(StoredPart(name, tensor.shape, tensor.shape), tensor, None, kinds)
        for name, tensor in tensors.items()
    }


def check_readable(name: str, tensor: StoredTensor) -> None:
    """Raise `UserFixable` for a tensor whose kind cannot be read."""
    if tensor.kind not in FLOATS and tensor.kind not in WIDENED:
        raise UserFixable(
            tr("The weights are stored as {dtype}, which Duotail cannot read.").format(
                dtype=tensor.kind
            ),
            tr("Choose a version of the model in BF16, F16 or F32."),
            f"{name} in {tensor.file}",
        )


def widened(rows: NDArray[Any], kind: str) -> NDArray[np.float32]:
    """Return rows as `TensorReader.stretches` yields them (or their bytes), as floats."""
    if kind not in FLOATS:
        from gguf import GGMLQuantizationType, quants

        with np.errstate(invalid="ignore", over="ignore"):  # damage is told by `check_finite`
            values: NDArray[np.float32] = quants.dequantize(rows, GGMLQuantizationType[kind])
            return values
    stored: NDArray[Any] = rows.view(FLOATS[kind])
    if kind == "BF16":  # the upper half of a float32
        stored = np.left_shift(stored, 16, dtype=np.uint32).view(np.float32)
    return np.asarray(stored, dtype=np.float32)


def _handed_on(kind: str, native: Collection[str]) -> str:
    """The kind in which stored rows are handed on, see `FoundPart.native`."""
    if kind not in WIDENED or kind in native:
        return kind
    return "F16" if native else "F32"


def _stored_bytes(found: FoundPart) -> int:
    """Bytes of a part in its file, as its share of the numbers stored there."""
    part, stored = found.part, sum(tensor.nbytes for tensor in found.tensors)
    numbers = math.prod(part.whole) * (2 if found.scales is not None else 1)  # two in a byte
    return stored * math.prod(part.shape) // max(numbers, 1)


def _stretches(found: FoundPart) -> Iterator[NDArray[Any]]:
    """Rows of a part, see `TensorReader.stretches`."""
    part, tensor = found.part, found.tensor
    rows = part.shape[0] if part.shape != part.whole else None
    if part.transposed:
        yield from _turned(found)
        return
    if part.groups:
        yield from _gathered(found, *part.groups)
        return
    if part.step == 1 and not part.pairs and found.scales is None:
        yield from _stored_rows(part.stored, tensor, part.first, rows, found.native)
        return
    total = part.shape[0]
    head = total // part.pairs if part.pairs else 1
    row_bytes = max(_stored_bytes(found) * part.step // total, 1)
    unit = math.lcm(_GROUP, head)
    most = max(STRETCH_BYTES // row_bytes // unit, 1) * unit
    for start in range(0, total, most):
        count = min(most, total - start)
        first, span = part.first + start * part.step, (count - 1) * part.step + 1
        pieces = [
            _copied(_stored_rows(part.stored, one, first, span, found.native))[:: part.step]
            for one in found.tensors
        ]
        piece = pieces[0] if found.scales is None else _mxfp4_blocks(*pieces)
        yield np.ascontiguousarray(_unpaired(piece, head) if part.pairs else piece)


def _gathered(
    found: FoundPart, size: int, ranges: tuple[tuple[int, int], ...]
) -> Iterator[NDArray[Any]]:
    """Ranges of rows out of groups of rows, see `StoredPart.groups`."""
    part, tensor = found.part, found.tensor
    starts = np.arange(0, part.whole[0], size)[:, None]
    rows = np.concatenate([(starts + first + np.arange(count)).ravel() for first, count in ranges])
    most = max(STRETCH_BYTES // max(tensor.row_bytes, 1) // _GROUP, 1) * _GROUP
    for begin in range(0, len(rows), most):
        chosen = rows[begin : begin + most]
        runs = np.split(chosen, np.flatnonzero(np.diff(chosen) != 1) + 1)
        pieces = (
            _copied(_stored_rows(part.stored, tensor, int(run[0]), len(run), found.native))
            for run in runs
        )
        yield np.concatenate(list(pieces))


def _turned(found: FoundPart) -> Iterator[NDArray[Any]]:
    """Columns of one expert's matrix as rows."""
    part = found.part
    _, columns, width = part.whole
    expert, offset = divmod(part.first, width)
    first = expert * columns
    matrix = _copied(_stored_rows(part.stored, found.tensor, first, columns, found.native))
    rows = matrix.T[offset :: part.step][: part.shape[0]]
    most = max(STRETCH_BYTES // (columns * matrix.itemsize) // _GROUP, 1) * _GROUP
    for start in range(0, len(rows), most):
        yield np.ascontiguousarray(rows[start : start + most])


def _vector(found: FoundPart) -> NDArray[np.float32]:
    """Numbers of a stored vector, or of one row of a matrix of vectors, in float32."""
    part = found.part
    row, first = divmod(part.first, max(part.whole[-1], 1))
    (stretch,) = _stored_rows(part.stored, found.tensor, row, 1, found.native)
    values = widened(stretch, found.kind).reshape(-1)
    values = values[first :: part.step][: part.shape[0]]
    if part.pairs:
        values = _unpaired(values[:, None], len(values) // part.pairs)[:, 0]
    if part.log_rate:
        values = -np.exp(values)
    return np.array(values + 1 if part.plus_one else values, dtype=np.float32, order="C")


def _copied(stretches: Iterator[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate([stretch.copy() for stretch in stretches])


def _unpaired(rows: NDArray[Any], head: int) -> NDArray[Any]:
    """Rows of whole heads in order, from neighbouring pairs (0, half, 1, half + 1, ...)."""
    pairs = rows.reshape(-1, head // 2, 2, rows.shape[1])
    return pairs.swapaxes(1, 2).reshape(rows.shape)


def _mxfp4_blocks(blocks: NDArray[np.uint8], scales: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """ggml's blocks [rows, blocks * 17] from pairs [rows, blocks * 16] and scales [rows, blocks].

    A byte holds two neighbours in Hugging Face's files, but numbers j and j + 16 of a block in
    ggml's, where the scale comes first.
    """
    halves = blocks.reshape(-1).view(np.uint64).reshape(-1, 2)  # numbers below 16, from 16 on
    low, high = np.ascontiguousarray(halves.T)
    numbers = np.empty(blocks.size, dtype=np.uint8)
    numbers[0::2] = (low & _EVEN | (high & _EVEN) << _NIBBLE).view(np.uint8)
    numbers[1::2] = (low >> _NIBBLE & _EVEN | high & ~_EVEN).view(np.uint8)
    result = np.empty(scales.size, dtype=_BLOCK)
    result["scale"] = scales.reshape(-1)
    result["numbers"] = numbers.view("V16")
    return result.view(np.uint8).reshape(len(scales), -1)


def _stored_rows(
    name: str, tensor: StoredTensor, first: int, count: int | None, native: Collection[str]
) -> Iterator[NDArray[Any]]:
    """Rows of a stored tensor, some megabytes at a time, all in the same memory.

    Args:
        name: of the tensor, for messages.
        tensor: where it lies.
        first: its first row that is wanted.
        count: rows; None: all from there on.
        native: see `FoundPart`.
    """
    kind, given = tensor.kind, _handed_on(tensor.kind, native)
    if kind != BYTES:
        check_readable(name, tensor)
    if given == kind:
        view = FLOATS.get(kind, np.uint8)
        for raw in _raw_rows(tensor, first, count, tensor.row_bytes):
            yield raw.view(view)
        return
    for raw in _raw_rows(tensor, first, count, tensor.columns * np.dtype(np.float32).itemsize):
        with np.errstate(over="ignore"):  # packing tells what is no number
            part = widened(raw, kind).astype(FLOATS[given], copy=False)
        yield part


def _raw_rows(
    tensor: StoredTensor, first: int, count: int | None, row_bytes: int
) -> Iterator[NDArray[np.uint8]]:
    """Rows' bytes, [rows, bytes per row], some at a time, all in the same memory.

    `row_bytes` is what the caller makes of a row; it bounds how many there are at a time.
    """
    last = tensor.rows if count is None else first + count
    if not 0 <= first <= last <= tensor.rows:
        raise ValueError(f"rows {first} to {last} of {tensor.rows}")
    most = max(STRETCH_BYTES // max(row_bytes, 1) // _GROUP, 1) * _GROUP
    room = np.empty((min(most, last - first), tensor.row_bytes), dtype=np.uint8)
    with _opened(tensor, first) as stream:
        for start in range(first, last, most):
            part = room[: min(most, last - start)]
            _fill(part.reshape(-1), stream, tensor)
            yield part


@contextmanager
def _opened(tensor: StoredTensor, row: int) -> Iterator[FileIO]:
    """The tensor's file, at one of its rows."""
    try:
        with FileIO(tensor.file) as stream:
            stream.seek(tensor.begin + row * tensor.row_bytes)
            yield stream
    except OSError as error:
        raise UserFixable(
            tr("{file} cannot be read.").format(file=tensor.file.name),
            tr("Check the disk and the file."),
            str(error),
        ) from error


def _fill(room: NDArray[np.uint8], stream: FileIO, tensor: StoredTensor) -> None:
    """Read until the room is full."""
    done = 0
    while done < room.nbytes:
        count = stream.readinto(room[done:].data)  # one call reads 2 GiB at most
        if not count:
            raise UserFixable(
                tr("{file} has become shorter since it was checked.").format(file=tensor.file.name),
                tr("Wait until the download is complete, then load the model again."),
                str(tensor.file),
            )
        done += count
