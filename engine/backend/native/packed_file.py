"""A file of packed matrices: written once from front to back, mapped into memory when read.

Matrices at page borders, then a table of contents, then a footer of fixed size that says where the
table is. What is cut off has no footer; what is damaged fails its checksum.
"""

from __future__ import annotations

import json
import mmap
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from engine.backend.native.library import Format, Matrix, library, pointer
from engine.backend.native.matrix import Packed
from engine.backend.native.pool import ThreadPool

PAGE = 4096
_MAGIC = b"duotail packed 1"
_FOOTER = struct.Struct("<16sQQ16s")  # magic, where the table starts, its bytes, its digest


class DamagedFile(Exception):
    """A file does not hold what was written."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """Place and shape of a matrix in the file."""

    names: str
    format: int
    rows: int
    cols: int
    start: int
    nbytes: int
    checksum: int


class PackedWriter:
    """Writes matrices one after the other; raises `OSError` when the disk is full."""

    def __init__(self, stream: BinaryIO, pool: ThreadPool) -> None:
        self._stream, self._pool = stream, pool
        self._entries: list[_Entry] = []
        self._position = 0

    def add(self, names: Sequence[str], packed: Packed) -> None:
        """Write a matrix, filed under the names of the tensors that it was made from."""
        self._write(bytes(-self._position % PAGE))
        form, data = packed.struct, packed.data
        self._entries.append(
            _Entry(
                names=" ".join(names),
                format=form.format,
                rows=form.rows,
                cols=form.cols,
                start=self._position,
                nbytes=data.nbytes,
                checksum=library().dt_checksum(self._pool.handle, pointer(data), data.nbytes),
            )
        )
        self._write(data.data)

    def finish(self, content: str) -> None:
        """Write the table, which says what the file is about, and the footer."""
        entries = [asdict(entry) for entry in self._entries]
        table = json.dumps({"content": content, "matrices": entries}).encode()
        start = self._position
        self._write(table)
        self._write(_FOOTER.pack(_MAGIC, start, len(table), _digest(table)))

    def _write(self, data: bytes | memoryview) -> None:
        self._stream.write(data)
        self._position += len(data)


class PackedFile:
    """The matrices of a file; their memory is the file's, shared with whoever else maps it."""

    def __init__(self, memory: mmap.mmap, entries: dict[str, _Entry]) -> None:
        self._memory, self._entries = memory, entries

    @classmethod
    def open(cls, path: Path, content: str) -> PackedFile:
        """Map the file and read its table.

        Raises:
            OSError: it cannot be read.
            DamagedFile: it is not whole, or about something else.
        """
        with path.open("rb") as stream:
            try:
                memory = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError as error:  # an empty file
                raise DamagedFile(path) from error
        table = _table(memory)
        if table is None or table["content"] != content:
            raise DamagedFile(path)
        entries = [_Entry(**entry) for entry in table["matrices"]]
        return cls(memory, {entry.names: entry for entry in entries})

    def has(self, names: Sequence[str], fmt: Format, shape: tuple[int, int]) -> bool:
        """Tell whether there is such a matrix."""
        entry = self._entries.get(" ".join(names))
        return entry is not None and (entry.format, entry.rows, entry.cols) == (fmt, *shape)

    def matrix(
        self, names: Sequence[str], fmt: Format, shape: tuple[int, int], pool: ThreadPool
    ) -> Packed:
        """A matrix, read once from end to end to check it.

        Raises:
            DamagedFile: it is not there, not as it was written, or of another format or shape.
        """
        if not self.has(names, fmt, shape):
            raise DamagedFile(names)
        entry = self._entries[" ".join(names)]
        inside = 0 <= entry.start <= len(self._memory) - entry.nbytes
        if not inside or entry.nbytes != library().dt_packed_bytes(fmt, *shape):
            raise DamagedFile(names)
        data = np.frombuffer(self._memory, np.uint8, entry.nbytes, entry.start)
        if library().dt_checksum(pool.handle, pointer(data), data.nbytes) != entry.checksum:
            raise DamagedFile(names)
        return Packed(Matrix(pointer(data), fmt, entry.rows, entry.cols), data, mapped=True)


def _table(memory: mmap.mmap) -> dict[str, Any] | None:
    """The table of contents, None unless it is as it was written."""
    end = len(memory) - _FOOTER.size
    if end < 0:
        return None
    magic, start, nbytes, digest = _FOOTER.unpack(memory[end:])
    if magic != _MAGIC or start + nbytes != end:
        return None
    table = memory[start:end]
    if _digest(table) != digest:
        return None
    parsed: dict[str, Any] = json.loads(table)
    return parsed


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()
