"""The folder and drive that a history lies in: full, not writable, or gone, in words."""

from __future__ import annotations

import shutil
from pathlib import Path

from engine.errors import UserFixable
from engine.language import tr

_LEAST_ROOM = 64 << 10
"""Bytes without which SQLite cannot even begin: its shared memory takes half of them."""

Identity = tuple[int, int]
"""Device and number of a file: another file at the same path has others."""


class NoPlace(UserFixable):
    """The place takes nothing at the moment. Nothing is wrong with the history itself."""


class Gone(NoPlace):
    """The file that is open does not lie at its path any more."""

    def __init__(self, path: Path, details: str = "") -> None:
        super().__init__(
            tr("The file with your conversations, {path}, was moved or deleted.").format(path=path),
            tr("Put it back or connect its drive."),
            details,
        )


def identity(path: Path) -> Identity | None:
    """Return what tells the file at `path` from others; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def full_words(folder: Path) -> tuple[str, str]:
    """Return cause and remedy for a full drive."""
    cause = tr("The drive with {folder} is full, so your conversations cannot be saved.")
    return cause.format(folder=folder), tr("Free some space on it.")


def is_full(folder: Path) -> bool:
    """Return whether a drive has no room for anything."""
    try:
        return shutil.disk_usage(folder).free < _LEAST_ROOM
    except OSError:
        return False
