"""Whether files are what they should be, by size and hash: of the hub, of their names, or ours."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.hub.download.cache import repository_of
from engine.hub.messages import RemoteFile
from engine.hub.remote.files import is_commit, is_sha256
from engine.kept_files import write_json

_OLLAMA = re.compile(r"sha256-([0-9a-f]{64})", re.ASCII)
_PIECE = 4 << 20
_MOST_NOTES = 5000
"""The newest are kept."""


Heard = Callable[[int], None]
"""Hears the size of every piece that was read; what it raises ends the reading."""


def sha256_of(file: Path, heard: Heard = lambda _nbytes: None) -> str:
    """Return a file's hash in hexadecimal.

    Raises:
        OSError: the file cannot be read.
    """
    return _read(file, hashlib.sha256(), heard)


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

    def agrees(self, file: Path, heard: Heard = lambda _nbytes: None) -> bool:
        """Read the whole file and compare; errors as of `sha256_of`."""
        if not self.git:
            return sha256_of(file, heard) == self.digest
        blob = hashlib.sha1(b"blob %d\0" % file.stat().st_size, usedforsecurity=False)
        return _read(file, blob, heard) == self.digest


def is_right(path: Path, file: RemoteFile) -> bool:
    """Read all of a file and compare; one that the hub lists without a hash is never right."""
    wanted = Expected.listed(file)
    return wanted is not None and path.stat().st_size == file.nbytes and wanted.agrees(path)


def expected(file: Path, ours: Mapping[str, str]) -> Expected | None:
    """Return the hash that a file on this disk should have; None where nobody knows.

    Args:
        file: on this disk; the hub's cache and Ollama name files by their hashes.
        ours: names of files -> what was read when they were copied.
    """
    if file.name in ours:
        return Expected(ours[file.name])
    if is_ollama_blob(file):
        return Expected(file.name.removeprefix("sha256-"))
    if repository_of(file) is None or not file.is_symlink():
        return None
    blob = file.resolve().name
    if is_sha256(blob):
        return Expected(blob)
    return Expected(blob, git=True) if is_commit(blob) else None


def is_ollama_blob(file: Path) -> bool:
    """Return whether a file's name is a hash as Ollama writes it."""
    return _OLLAMA.fullmatch(file.name) is not None


class CheckedFiles:
    """Notes of files that were right, so that a large one is read once only.

    A note holds as long as the file has the size and the time of last change that it had then.

    Args:
        path: the file of the notes.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._notes = _read_notes(path)

    def has(self, blob: Path, file: RemoteFile) -> bool:
        """Return whether this very file was right."""
        return self._notes.get(str(blob)) == _note(blob, file)

    def add(self, blob: Path, file: RemoteFile) -> None:
        """Note that a file is right."""
        self._notes.pop(str(blob), None)
        self._notes[str(blob)] = _note(blob, file)
        write_json(self._path, dict(list(self._notes.items())[-_MOST_NOTES:]))


def _note(blob: Path, file: RemoteFile) -> list[object]:
    seen = blob.stat()
    return [file.blob_name, seen.st_size, seen.st_mtime_ns]


def _read_notes(path: Path) -> dict[str, object]:
    """Return what was noted; nothing where that is unreadable: files are read once more."""
    try:
        notes = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return notes if isinstance(notes, dict) else {}


def _read(file: Path, digest: hashlib._Hash, heard: Heard) -> str:
    with file.open("rb", buffering=0) as stream:
        while piece := stream.read(_PIECE):
            digest.update(piece)
            heard(len(piece))
    return digest.hexdigest()
