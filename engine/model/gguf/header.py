"""The GGUF file format: a file's metadata and tensor list, read and checked without its data.

Nothing a file claims is believed: every count and length is compared with the bytes that are left
before room is made for it, so a hostile header costs little more than its own bytes do.

Ggml's table of tensor types is here too (see NOTICE). The gguf package has most of it, but gives
Q8_1 a wrong size and lacks the newest types.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from engine.errors import UserFixable
from engine.language import number, tr
from engine.model.weights.stored import StoredTensor, cannot_be_read, damaged, incomplete


@dataclass(frozen=True, slots=True)
class TensorKind:
    """A tensor type: rows are blocks of `numbers` numbers, `nbytes` bytes each."""

    name: str
    numbers: int
    nbytes: int


KINDS: dict[int, TensorKind] = {
    0: TensorKind("F32", 1, 4),
    1: TensorKind("F16", 1, 2),
    2: TensorKind("Q4_0", 32, 18),
    3: TensorKind("Q4_1", 32, 20),
    6: TensorKind("Q5_0", 32, 22),
    7: TensorKind("Q5_1", 32, 24),
    8: TensorKind("Q8_0", 32, 34),
    9: TensorKind("Q8_1", 32, 36),
    10: TensorKind("Q2_K", 256, 84),
    11: TensorKind("Q3_K", 256, 110),
    12: TensorKind("Q4_K", 256, 144),
    13: TensorKind("Q5_K", 256, 176),
    14: TensorKind("Q6_K", 256, 210),
    15: TensorKind("Q8_K", 256, 292),
    16: TensorKind("IQ2_XXS", 256, 66),
    17: TensorKind("IQ2_XS", 256, 74),
    18: TensorKind("IQ3_XXS", 256, 98),
    19: TensorKind("IQ1_S", 256, 50),
    20: TensorKind("IQ4_NL", 32, 18),
    21: TensorKind("IQ3_S", 256, 110),
    22: TensorKind("IQ2_S", 256, 82),
    23: TensorKind("IQ4_XS", 256, 136),
    24: TensorKind("I8", 1, 1),
    25: TensorKind("I16", 1, 2),
    26: TensorKind("I32", 1, 4),
    27: TensorKind("I64", 1, 8),
    28: TensorKind("F64", 1, 8),
    29: TensorKind("IQ1_M", 256, 56),
    30: TensorKind("BF16", 1, 2),
    34: TensorKind("TQ1_0", 256, 54),
    35: TensorKind("TQ2_0", 256, 66),
    39: TensorKind("MXFP4", 32, 17),
    40: TensorKind("NVFP4", 64, 36),
    41: TensorKind("Q1_0", 128, 18),
    42: TensorKind("Q2_0", 64, 18),
}
"""Types by ggml's number. The gaps are types that ggml has given up."""

KIND_OF_NAME = {kind.name: kind for kind in KINDS.values()}


MAX_HEADER_BYTES = 128 << 20
MAX_ENTRIES = 1 << 16
MAX_TEXTS = 1 << 22
MAX_NAME_BYTES = 1 << 10
MAX_ALIGNMENT = 1 << 16
MAX_DIMENSIONS = 4
_DEFAULT_ALIGNMENT = 32
_WINDOW_BYTES = 1 << 16
_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_LEAST_PAIR = 8 + 4 + 1  # bytes: length of the key, type, value
_LEAST_TENSOR = 8 + 4 + 8 + 4 + 8  # length of the name, dimensions, one size, type, offset

_TEXT, _LIST = 8, 9
_NUMBERS = dict(enumerate(("<u1", "<i1", "<u2", "<i2", "<u4", "<i4", "<f4", "|b1")))
_NUMBERS |= {10: "<u8", 11: "<i8", 12: "<f8"}
"""numpy's types of the values of fixed size, by GGUF's number."""
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Header:
    """A file's table of contents: pairs and tensors in the file's order."""

    values: Mapping[str, object]
    tensors: Mapping[str, StoredTensor]


def read_header(file: Path) -> Header:
    """The table of contents of one file; `UserFixable` for any defect of the file."""
    try:
        with file.open("rb") as stream:
            cursor = _Cursor(file, stream, os.fstat(stream.fileno()).st_size)
            return _read(cursor)
    except OSError as error:
        raise cannot_be_read(file, error) from error


class _Cursor:
    """Reads a file from front to back through a small window, never past its end."""

    __slots__ = ("_at", "_data", "_start", "_stream", "file", "size")

    def __init__(self, file: Path, stream: BinaryIO, size: int) -> None:
        self.file = file
        self.size = size
        self._stream = stream
        self._data = b""  # the window, which starts at this byte of the file
        self._start = 0
        self._at = 0  # where in the window the next thing is

    @property
    def position(self) -> int:
        """The byte of the file that comes next."""
        return self._start + self._at

    def number(self, form: struct.Struct) -> int:
        """A whole number."""
        start = self._advance(form.size)
        (value,) = form.unpack_from(self._data, start)
        return int(value)

    def count(self, least: int) -> int:
        """The number of entries that follow, of at least `least` bytes each; they have room."""
        count = self.number(_U64)
        if count * least > self.size - self.position:
            raise _cut_off(self.file)
        return count

    def take(self, count: int) -> bytes:
        """The next bytes."""
        start = self._advance(count)
        return self._data[start : self._at]

    def name(self) -> str:
        """A key or a tensor's name."""
        length = self.count(1)
        if length > MAX_NAME_BYTES:
            raise damaged(self.file, tr("it holds a name of {count} bytes").format(count=length))
        name = self.take(length).decode("utf-8", "replace")
        if "\ufffd" in name or not name.isprintable():  # names are shown in messages
            raise damaged(self.file, tr("it holds a name that is not text"))
        return name

    def text(self) -> str:
        """A text; what is not UTF-8 becomes U+FFFD."""
        return self.take(self.count(1)).decode("utf-8", "replace")

    def texts(self, count: int) -> tuple[str, ...]:
        """Many texts, without calls for each: vocabularies have hundreds of thousands."""
        found: list[str] = []
        data, at, unpack = self._data, self._at, _U64.unpack_from
        for _ in range(count):
            if at + 8 > len(data):
                data, at = self._ahead(at, 8), 0
            (length,) = unpack(data, at)
            start, at = at + 8, at + 8 + length
            if at > len(data):
                data, start, at = self._ahead(start, length), 0, length
            found.append(data[start:at].decode("utf-8", "replace"))
        self._at = at
        return tuple(found)

    def _advance(self, count: int) -> int:
        """Step over the next bytes; where in the window they start."""
        start = self._at
        if start + count > len(self._data):
            self._ahead(start, count)
            start = 0
        self._at = start + count
        return start

    def _ahead(self, at: int, count: int) -> bytes:
        """The window, moved to start at `at` and holding at least `count` bytes."""
        start, left = self._start + at, len(self._data) - at
        if start + count > self.size:
            raise _cut_off(self.file)
        if start + count > MAX_HEADER_BYTES:
            raise damaged(self.file, tr("its table of contents is too large"))
        wanted = min(max(count, _WINDOW_BYTES), self.size - start)
        self._data, self._start = self._data[at:] + self._stream.read(wanted - left), start
        if len(self._data) < count:  # the file became shorter meanwhile
            raise _cut_off(self.file)
        return self._data


def _cut_off(file: Path) -> UserFixable:
    return UserFixable(
        tr("{file} is incomplete or damaged: it ends within its table of contents.").format(
            file=file.name
        ),
        tr("Finish or repeat the download."),
        str(file),
    )


def _read(cursor: _Cursor) -> Header:
    _check_magic(cursor)
    tensor_count = _entries(cursor, _LEAST_TENSOR)
    pair_count = _entries(cursor, _LEAST_PAIR)
    values: dict[str, object] = {}
    for _ in range(pair_count):
        key = cursor.name()
        if key in values:
            raise damaged(cursor.file, tr("“{key}” occurs twice").format(key=key[:100]))
        values[key] = _value(cursor, key)
    alignment = _alignment(cursor.file, values)
    tensors: dict[str, StoredTensor] = {}
    for _ in range(tensor_count):
        name = cursor.name()
        if name in tensors:
            raise damaged(cursor.file, tr("tensor “{name}” occurs twice").format(name=name[:100]))
        tensors[name] = _tensor(cursor, name, alignment)
    data_start = _aligned(cursor.position, alignment)
    return Header(values, _placed(cursor, tensors, data_start))


def _check_magic(cursor: _Cursor) -> None:
    file = cursor.file
    if cursor.size < 24:
        raise incomplete(file, cursor.size)
    magic, version = cursor.take(4), cursor.number(_U32)
    if magic != _MAGIC:
        raise _something_else(file)
    if version in _VERSIONS:
        return
    if version & 0xFFFF == 0:
        what = tr("{file} was made for machines of another kind (big-endian).")
    elif version == 1:
        what = tr("{file} is in version 1 of GGUF, which is obsolete.")
    else:
        what = tr("{file} is in version {version} of GGUF, which Duotail cannot read.")
    raise UserFixable(
        what.format(file=file.name, version=version),
        tr("Choose another file of the model, or convert it again with a current llama.cpp."),
        str(file),
    )


def _something_else(file: Path) -> UserFixable:
    """The error for a file that does not begin as GGUF does, by what it begins with."""
    with file.open("rb") as stream:
        begin = stream.read(_WINDOW_BYTES)
    if begin.startswith(b"version https://git-lfs"):
        return UserFixable(
            tr("{file} only says where Git LFS keeps the file.").format(file=file.name),
            tr("Fetch the file itself with “git lfs pull”, or download it from the model's page."),
            str(file),
        )
    if begin.lstrip()[:15].lower().startswith((b"<!doctype html", b"<html")):
        return UserFixable(
            tr("{file} is a web page that was saved under a model's name.").format(file=file.name),
            tr("Download the model again; some ask you to sign in or to accept a licence first."),
            str(file),
        )
    if begin.startswith((b"PK\x03\x04", b"\x1f\x8b", b"7z\xbc\xaf", b"\x28\xb5\x2f\xfd")):
        return UserFixable(
            tr("{file} is a compressed archive.").format(file=file.name),
            tr("Unpack it, and open the model that is in it."),
            str(file),
        )
    return damaged(file, tr("it is not a GGUF file"))


def _entries(cursor: _Cursor, least: int) -> int:
    return _limited(cursor, cursor.count(least), MAX_ENTRIES)


def _limited(cursor: _Cursor, count: int, most: int) -> int:
    """Return a count; one that no model comes near to is refused, since it would only cost time."""
    if count > most:
        raise damaged(cursor.file, tr("it claims {count} entries").format(count=number(count)))
    return count


def _value(cursor: _Cursor, key: str) -> object:
    kind = cursor.number(_U32)
    if kind == _TEXT:
        return cursor.text()
    if kind != _LIST:
        form = _form(cursor, kind, key)
        return np.frombuffer(cursor.take(form.itemsize), form)[0].item()
    kind = cursor.number(_U32)
    if kind == _TEXT:
        return cursor.texts(_limited(cursor, cursor.count(_U64.size), MAX_TEXTS))
    form = _form(cursor, kind, key)
    count = cursor.count(form.itemsize)
    return np.frombuffer(cursor.take(count * form.itemsize), form)


def _form(cursor: _Cursor, kind: int, key: str) -> np.dtype[np.generic]:
    if kind not in _NUMBERS:
        raise damaged(
            cursor.file,
            tr("“{key}” is of a kind that GGUF does not have ({kind})").format(
                key=key[:100], kind=kind
            ),
        )
    return np.dtype(_NUMBERS[kind])


def _alignment(file: Path, values: Mapping[str, object]) -> int:
    alignment = values.get("general.alignment", _DEFAULT_ALIGNMENT)
    if (
        not isinstance(alignment, int)
        or isinstance(alignment, bool)
        or not 0 < alignment <= MAX_ALIGNMENT
        or alignment & (alignment - 1)
    ):
        raise damaged(file, tr("“{key}” should be a power of two").format(key="general.alignment"))
    return alignment


def _aligned(position: int, alignment: int) -> int:
    return -(-position // alignment) * alignment


def _tensor(cursor: _Cursor, name: str, alignment: int) -> StoredTensor:
    """A tensor whose `begin` still counts from the start of the data."""
    file, named = cursor.file, name[:100]
    dimensions = cursor.number(_U32)
    if not 1 <= dimensions <= MAX_DIMENSIONS:
        raise damaged(
            file,
            tr("“{name}” has {count} dimensions").format(name=named, count=dimensions),
        )
    sizes = [cursor.number(_U64) for _ in range(dimensions)]
    number, offset = cursor.number(_U32), cursor.number(_U64)
    kind = KINDS.get(number)
    if kind is None:
        raise UserFixable(
            tr("{file} stores “{name}” as type {number}, which Duotail does not know.").format(
                file=file.name, name=named, number=number
            ),
            tr("Choose another file of the model, such as one with Q4_K_M in its name."),
            str(file),
        )
    if 0 in sizes or sizes[0] % kind.numbers:
        raise damaged(
            file,
            tr("“{name}” has rows of {count} numbers, which {kind} cannot hold").format(
                name=named, count=sizes[0], kind=kind.name
            ),
        )
    if offset % alignment:
        raise damaged(file, tr("“{name}” starts at an invalid position").format(name=named))
    nbytes = math.prod(sizes) // kind.numbers * kind.nbytes
    return StoredTensor(file, kind.name, tuple(reversed(sizes)), offset, nbytes)


def _placed(
    cursor: _Cursor, tensors: Mapping[str, StoredTensor], data_start: int
) -> dict[str, StoredTensor]:
    """The tensors with their place in the file: inside it, none on top of another."""
    file, position = cursor.file, 0
    for name, tensor in sorted(tensors.items(), key=lambda item: item[1].begin):
        if tensor.begin < position:
            raise damaged(file, tr("“{name}” overlaps another tensor").format(name=name[:100]))
        position = tensor.begin + tensor.nbytes
    if data_start + position > cursor.size and tensors:
        raise incomplete(file, cursor.size, data_start + position)
    return {
        name: StoredTensor(file, one.kind, one.shape, data_start + one.begin, one.nbytes)
        for name, one in tensors.items()
    }
