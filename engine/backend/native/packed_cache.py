"""Packed weights on disk, so that a model is quantised once and not at every start.

A folder of `CONTENT.packed`, named by a hash of the weights that they were made from, and of
`SOURCE.source`, which say what contents a model's files have: hashing gigabytes at every start
would take as long as packing them. A source is files by path, inode, size and times, as git's index
has it. Its contents are several where loads needed different matrices, as a model is placed on
devices in one way and then in another.

A file has matrices at page borders, then a table of contents, then a footer of fixed size that says
where the table is. What is cut off has no footer; what is damaged fails its checksum.

The folder is a convenience. Whatever goes wrong with it (read-only, full, damaged, gone) costs time
and nothing else.
"""

from __future__ import annotations

import json
import logging
import mmap
import os
import re
import secrets
import shutil
import struct
import threading
import time
import weakref
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import platformdirs
import psutil

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
        _watch(memory)
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


def _watch(memory: mmap.mmap) -> None:
    """Let answers end, and not the process, should the file become shorter meanwhile."""
    start = np.frombuffer(memory, np.uint8).ctypes.data
    if library().dt_watch(start, len(memory)) == 0:
        weakref.finalize(memory, library().dt_unwatch, start).atexit = False


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


MOST_BYTES = 40 << 30
DISK_SHARE = 0.1
"""Share of the free disk that the cache may take."""
ABANDONED_S = 86400.0
"""No load takes so long: the process that has the writer's number is another one."""

_log = logging.getLogger(__name__)
_publishing: list[threading.Thread] = []


def cache_folder() -> Path:
    """Folder of packed weights; DUOTAIL_CACHE_DIR chooses another place."""
    chosen = os.environ.get("DUOTAIL_CACHE_DIR")
    root = Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("Duotail", False)
    return root / "packed"


class NewFile:
    """A file on its way into the cache."""

    def __init__(self, path: Path, pool: ThreadPool) -> None:
        self.path = path
        self.stream = path.open("xb")
        self.writer = PackedWriter(self.stream, pool)

    def abandon(self) -> None:
        """Close and delete the file."""
        with suppress(OSError):  # what could not be written cannot be flushed either
            self.stream.close()
        with suppress(OSError):
            self.path.unlink()


class PackedCache:
    """The cache in one folder. Several processes may use it at once."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or cache_folder()

    def find(self, source: str) -> tuple[PackedFile, ...]:
        """The packed weights of a source: a file of every load that had something to add."""
        settle()
        files = []
        try:
            for content in self._contents(source):
                path = self._packed(content)
                with suppress(FileNotFoundError):  # it was the least recently used
                    files.append(PackedFile.open(path, content))
                with suppress(OSError):
                    os.utime(path)  # the least recently used go first
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, DamagedFile) as error:
            _log.info("packed weights are not used: %r", error)
            self.forget(source)
            return ()
        return tuple(files)

    def forget(self, source: str) -> None:
        """Remove what turned out to be damaged."""
        with suppress(OSError, ValueError, DamagedFile):
            self._remove(map(self._packed, self._contents(source)))
        self._remove([self._note(source)])

    def begin(self, nbytes: int, pool: ThreadPool) -> NewFile | None:
        """A new file of about `nbytes`, None where it would take too much of the disk."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not self._make_room(nbytes):
                return None
            return NewFile(self.folder / f"{os.getpid()}-{secrets.token_hex(4)}.part", pool)
        except OSError as error:
            _log.info("packed weights cannot be kept: %s", error)
            return None

    def keep(self, new: NewFile, source: str, content: str) -> None:
        """Add a finished file to the cache.

        Writing through to the disk may take seconds, so a thread does it, and the interpreter ends
        after it has.
        """
        thread = threading.Thread(target=self._publish, args=(new, source, content))
        _publishing.append(thread)
        thread.start()

    def usage(self) -> int:
        """Bytes on disk."""
        return sum(nbytes for _, _, nbytes in self._files("*.packed", "*.part"))

    def clear(self) -> int:
        """Remove everything; return how many bytes that frees."""
        settle()
        before = self.usage()
        self._remove(path for _, path, _ in self._files("*.packed", "*.source"))
        self._remove(self._abandoned())
        return before - self.usage()

    def _publish(self, new: NewFile, source: str, content: str) -> None:
        try:
            new.writer.finish(content)
            new.stream.flush()
            os.fsync(new.stream.fileno())
            new.stream.close()
            new.path.replace(self._packed(content))
            note = new.path.with_suffix(".note")
            contents = dict.fromkeys([*self._present(source), content])
            note.write_text("\n".join(contents), "ascii")
            note.replace(self._note(source))
        except OSError as error:
            _log.info("packed weights are not kept: %s", error)
            new.abandon()

    def _packed(self, content: str) -> Path:
        return self.folder / f"{content}.packed"

    def _note(self, source: str) -> Path:
        return self.folder / f"{source}.source"

    def _contents(self, source: str) -> list[str]:
        """Read a note.

        Raises:
            DamagedFile: a line of it is not a digest.
        """
        contents = self._note(source).read_text("ascii").split("\n")
        if not all(re.fullmatch(r"[0-9a-f]{32}", content) for content in contents):
            raise DamagedFile(self._note(source))
        return contents

    def _present(self, source: str) -> list[str]:
        """The contents of a source whose files are there."""
        with suppress(OSError, ValueError, DamagedFile):
            return [found for found in self._contents(source) if self._packed(found).exists()]
        return []

    def _make_room(self, nbytes: int) -> bool:
        self._remove(self._abandoned())
        held = self.usage()
        limit = min(MOST_BYTES, int((shutil.disk_usage(self.folder).free + held) * DISK_SHARE))
        if nbytes > limit:
            return False
        for _, path, size in sorted(self._files("*.packed")):
            if held + nbytes <= limit:
                break
            self._remove([path])
            held -= size
        return True

    def _abandoned(self) -> list[Path]:
        """List files that ended processes left half written, and notes about missing files."""
        found = [
            path for used, path, _ in self._files("*.part", "*.note") if _is_orphan(path, used)
        ]
        notes = (path for _, path, _ in self._files("*.source"))
        return [*found, *(path for path in notes if not self._present(path.stem))]

    def _files(self, *patterns: str) -> list[tuple[float, Path, int]]:
        """List files: time of last use, path, bytes."""
        found = []
        for pattern in patterns:
            for path in self.folder.glob(pattern):
                with suppress(OSError):
                    stat = path.stat()
                    found.append((stat.st_mtime, path, stat.st_size))
        return found

    def _remove(self, paths: Iterable[Path]) -> None:
        for path in paths:
            with suppress(OSError):  # in use (Windows), or another process was quicker
                path.unlink()


def _is_orphan(part: Path, used: float) -> bool:
    """Tell whether nobody writes this file any more; its name begins with the writer's process."""
    process = part.name.split("-")[0]
    alive = process.isdecimal() and psutil.pid_exists(int(process))
    return not alive or used < time.time() - ABANDONED_S


def settle() -> None:
    """Wait until what this process wants to keep is on disk."""
    while _publishing:
        _publishing.pop().join()
