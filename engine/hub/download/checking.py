"""Whether a file is what the hub listed: its size and its hash."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from engine.hub.download.cache import blob_name
from engine.hub.remote.listing import RemoteFile

_PIECE = 1 << 20
_MOST = 5000
"""Notes that are kept; the newest."""


def is_right(path: Path, file: RemoteFile) -> bool:
    """Reads all of it. A file that the hub lists without a hash is never right."""
    if path.stat().st_size != file.nbytes:
        return False
    if file.sha256:
        return _digest(path, hashlib.sha256()) == file.sha256
    if file.git_sha1:
        blob = hashlib.sha1(b"blob %d\0" % file.nbytes, usedforsecurity=False)
        return _digest(path, blob) == file.git_sha1
    return False


class CheckedFiles:
    """Notes of files that were right, so that a large one is read once only.

    A note holds as long as the file has the size and the time of last change that it had then.

    Args:
        path: the file of the notes; None: nothing is noted.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._notes = _read(path)

    def has(self, blob: Path, file: RemoteFile) -> bool:
        """Whether this very file was right."""
        return self._notes.get(str(blob)) == _note(blob, file)

    def add(self, blob: Path, file: RemoteFile) -> None:
        """It is right."""
        if self._path is None or self.has(blob, file):
            return
        self._notes.pop(str(blob), None)
        self._notes[str(blob)] = _note(blob, file)
        kept = dict(list(self._notes.items())[-_MOST:])
        part = self._path.with_suffix(".part")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(kept), encoding="utf-8")
        os.replace(part, self._path)


def _note(blob: Path, file: RemoteFile) -> list[object]:
    seen = blob.stat()
    return [blob_name(file), seen.st_size, seen.st_mtime_ns]


def _read(path: Path | None) -> dict[str, object]:
    """What was noted; nothing where that is unreadable: files are read once more, no worse."""
    try:
        notes = json.loads(path.read_text(encoding="utf-8")) if path else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return notes if isinstance(notes, dict) else {}


def _digest(path: Path, whole: hashlib._Hash) -> str:
    with path.open("rb", buffering=0) as stream:
        while piece := stream.read(_PIECE):
            whole.update(piece)
    return whole.hexdigest()
