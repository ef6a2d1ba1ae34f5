"""Packed weights on disk, so that a model is quantised once and not at every start.

A folder of `CONTENT.packed`, named by a hash of the weights that they were made from, and of
`SOURCE.source`, which say what contents a model's files have: hashing gigabytes at every start
would take as long as packing them. A source is files by path, inode, size and times, as git's index
has it. Its contents are several where loads needed different matrices, as a model is placed on
devices in one way and then in another.

The folder is a convenience. Whatever goes wrong with it (read-only, full, damaged, gone) costs time
and nothing else.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import shutil
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import platformdirs
import psutil

from engine.backend.native.packed_file import DamagedFile, PackedFile, PackedWriter
from engine.backend.native.pool import ThreadPool

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
