"""Tensors in files, read by the names they are stored under: whole, or some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import UserFixable
from engine.language import tr
from engine.model.weights.stored import StoredTensor, not_finite

STRETCH_BYTES = 8 << 20
VIEWS = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}
FLOATS = frozenset(VIEWS)
INTEGERS = {"I64": np.int64, "I32": np.int32, "U32": np.uint32}
BYTES = "U8"
"""Not numbers: a format of its own, that whoever asks for it knows."""
_GROUP = 16
"""Backends pack so many rows at a time."""


class TensorSource:
    """The tensors of one or several files, whose headers have been checked.

    A tensor is read as a matrix: its last dimension makes the rows, what three dimensions hold
    (a matrix per expert) counts as one matrix below the other, and of four dimensions the last
    two make the rows together. Reading raises `UserFixable` where a file is gone or shorter.
    """

    __slots__ = ("_tensors",)

    def __init__(self, tensors: Mapping[str, StoredTensor]) -> None:
        self._tensors = tensors

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors as stored."""
        return sum(tensor.nbytes for tensor in self._tensors.values())

    @property
    def files(self) -> tuple[Path, ...]:
        """The weight files."""
        return tuple(sorted({tensor.file for tensor in self._tensors.values()}))

    def names(self) -> tuple[str, ...]:
        """Names of all tensors, in file order."""
        return tuple(self._tensors)

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor; `KeyError` when there is none of that name."""
        return self._tensors[name].shape

    def stored_bytes(self, name: str) -> int:
        """Bytes of a tensor in its file."""
        return self._tensors[name].nbytes

    def kind(self, name: str) -> str:
        """What `stretches` gives, in ggml's words: "F32", "F16", "BF16", "Q4_K", ..."""
        return self._tensors[name].kind

    def check_readable(self, name: str) -> None:
        """Raise `UserFixable` for a tensor whose kind cannot be read."""
        tensor = self._tensors[name]
        if not self._is_readable(tensor.kind):
            raise UserFixable(
                tr("The weights are stored as {dtype}, which Duotail cannot read.").format(
                    dtype=tensor.kind
                ),
                tr("Choose a version of the model in BF16, F16 or F32."),
                f"{name} in {tensor.file}",
            )

    def float32(self, name: str, *, check_finite: bool = False) -> NDArray[np.float32]:
        """A C-contiguous float32 copy of a tensor.

        `check_finite` refuses NaN and infinity with a `UserFixable`.
        """
        self.check_readable(name)
        tensor = self._tensors[name]
        values = np.empty(tensor.shape, dtype=np.float32)
        rows = values.reshape(tensor.rows, tensor.columns)
        done = 0
        for raw in read_rows(tensor, 0, None, tensor.columns * 4):
            part = rows[done : done + len(raw)]
            part[:] = widened(raw, tensor.kind)
            if check_finite and not np.isfinite(part).all():
                raise not_finite(f"{name} in {tensor.file}")
            done += len(raw)
        return values

    def stretches(
        self, name: str, first: int = 0, count: int | None = None
    ) -> Iterator[NDArray[Any]]:
        """Rows as they are stored, from `first` on, some megabytes at a time (a multiple of 16).

        In float32, float16, or uint16 for the bits of BF16; in bytes where blocks are no floats.
        All use the same memory: a stretch is valid until the next one is asked for.
        """
        tensor = self._tensors[name]
        if tensor.kind != BYTES:
            self.check_readable(name)
        view = VIEWS.get(tensor.kind, np.uint8)
        for raw in read_rows(tensor, first, count, tensor.row_bytes):
            yield raw.view(view)

    def raw(self, name: str) -> Iterator[NDArray[np.uint8]]:
        """A tensor's bytes, [rows, bytes per row], some megabytes at a time in the same memory."""
        tensor = self._tensors[name]
        return read_rows(tensor, 0, None, tensor.row_bytes)

    def integers(self, name: str) -> NDArray[Any]:
        """Return a tensor of `INTEGERS` or F32, flattened, in its stored type.

        Raises:
            KeyError: its kind is another.
        """
        view = {**INTEGERS, "F32": np.float32}[self.kind(name)]
        return np.concatenate([part.copy() for part in self.raw(name)]).reshape(-1).view(view)

    def same_bytes(self, first: str, second: str) -> bool:
        """Whether two tensors agree in type, shape and every stored byte."""
        a, b = self._tensors[first], self._tensors[second]
        if (a.kind, a.shape) != (b.kind, b.shape):
            return False
        pairs = zip(*(read_rows(one, 0, None, one.row_bytes) for one in (a, b)), strict=True)
        return all(np.array_equal(left, right) for left, right in pairs)

    def _is_readable(self, kind: str) -> bool:
        return kind in FLOATS


def widened(rows: NDArray[Any], kind: str) -> NDArray[np.float32]:
    """Rows as `TensorSource.stretches` gives them (or their bytes), as floats."""
    if kind not in FLOATS:
        from gguf import GGMLQuantizationType, quants

        with np.errstate(invalid="ignore", over="ignore"):  # damage is told by `check_finite`
            values: NDArray[np.float32] = quants.dequantize(rows, GGMLQuantizationType[kind])
            return values
    stored: NDArray[Any] = rows.view(VIEWS[kind])
    if kind == "BF16":  # the upper half of a float32
        stored = np.left_shift(stored, 16, dtype=np.uint32).view(np.float32)
    return np.asarray(stored, dtype=np.float32)


def read_rows(
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
def _opened(tensor: StoredTensor, row: int = 0) -> Iterator[FileIO]:
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
