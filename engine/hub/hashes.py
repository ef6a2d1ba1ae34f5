"""Whether files are what they should be, by size and hash: of the hub, of their names, or ours."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.errors import Cancelled
from engine.hardware.kept_files import write_json
from engine.hub.download.cache import repository_of
from engine.hub.messages import RemoteFile
from engine.hub.remote.files import is_commit, is_sha256

_OLLAMA = re.compile(r"sha256-([0-9a-f]{64})", re.ASCII)
_PIECE = 4 << 20
_MOST_NOTES = 5000
"""The newest are kept."""


def sha256_of(
    file: Path,
    tell: Callable[[int], None] = lambda _nbytes: None,
    stopped: Callable[[], bool] = lambda: False,
) -> str:
    """Return a file's hash in hexadecimal.

    Args:
        file: that is read to its end.
        tell: hears the size of every piece that was read.
        stopped: asked between pieces.

    Raises:
        Cancelled: `stopped` said so.
        OSError: the file cannot be read.
    """
    return _read(file, hashlib.sha256(), tell, stopped)


@dataclass(frozen=True, slots=True)
class Expected:
    """The hash that a file should have; `git`: it is git's sha1 of a blob, else a sha256."""

    digest: str
    git: bool = False

    @classmethod
    def listed(cls, file: RemoteFile) -> Expected | None:
        """Return the hash that the hub lists; None where it lists none."""
        if file.sha256:
            return cls(file.sha256)
        return cls(file.git_sha1, git=True) if file.git_sha1 else None

    def agrees(
        self,
        file: Path,
        tell: Callable[[int], None] = lambda _nbytes: None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Read the whole file and compare; arguments and errors as of `sha256_of`."""
        if not self.git:
            return sha256_of(file, tell, stopped) == self.digest
        blob = hashlib.sha1(b"blob %d\0" % file.stat().st_size, usedforsecurity=False)
        return _read(file, blob, tell, stopped) == self.digest


def is_right(path: Path, file: RemoteFile) -> bool:
    """Read all of a file and compare; one that the hub lists without a hash is never right."""
    wanted = Expected.listed(file)
    return wanted is not None and path.stat().st_size == file.nbytes and wanted.agrees(path)


def expected(
    file: Path, listed: Mapping[str, RemoteFile], ours: Mapping[str, str]
) -> Expected | None:
    """Return the hash that a file on this disk should have; None where nobody knows.

    Args:
        file: on this disk.
        listed: what the hub said, by the files' names without folders.
        ours: what was read when it was copied, likewise.
    """
    remote = listed.get(file.name)
    known = Expected.listed(remote) if remote is not None else None
    if known is not None:
        return known
    return Expected(ours[file.name]) if file.name in ours else _by_name(file)


def by_name(files: Iterable[RemoteFile]) -> dict[str, RemoteFile]:
    """Return files of a repository by their names without folders."""
    return {file.path.rpartition("/")[2]: file for file in files}


class CheckedFiles:
    """Notes of files that were right, so that a large one is read once only.

    A note holds as long as the file has the size and the time of last change that it had then.

    Args:
        path: the file of the notes; None: nothing is noted.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._notes = _read_notes(path)

    def has(self, blob: Path, file: RemoteFile) -> bool:
        """Return whether this very file was right."""
        return self._notes.get(str(blob)) == _note(blob, file)

    def add(self, blob: Path, file: RemoteFile) -> None:
        """Note that a file is right."""
        if self._path is None or self.has(blob, file):
            return
        self._notes.pop(str(blob), None)
        self._notes[str(blob)] = _note(blob, file)
        write_json(self._path, dict(list(self._notes.items())[-_MOST_NOTES:]))


def _note(blob: Path, file: RemoteFile) -> list[object]:
    seen = blob.stat()
    return [file.blob_name, seen.st_size, seen.st_mtime_ns]


def _read_notes(path: Path | None) -> dict[str, object]:
    """Return what was noted; nothing where that is unreadable: files are read once more."""
    try:
        notes = json.loads(path.read_text(encoding="utf-8")) if path else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return notes if isinstance(notes, dict) else {}


def _by_name(file: Path) -> Expected | None:
    """Return the hash in a file's own name: the hub's cache and Ollama name files so."""
    match = _OLLAMA.fullmatch(file.name)
    if match is not None:
        return Expected(match[1])
    if repository_of(file) is None or not file.is_symlink():
        return None
    place = file.resolve().name
    if is_sha256(place):
        return Expected(place)
    return Expected(place, git=True) if is_commit(place) else None


def _read(
    file: Path, digest: hashlib._Hash, tell: Callable[[int], None], stopped: Callable[[], bool]
) -> str:
    with file.open("rb", buffering=0) as stream:
        while piece := stream.read(_PIECE):
            if stopped():
                raise Cancelled
            digest.update(piece)
            tell(len(piece))
    return digest.hexdigest()
