"""One process per history: a lock the operating system drops when its holder dies."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from pathlib import Path
from typing import BinaryIO

from app.history.place import NoPlace, full_words
from engine.errors import UserFixable
from engine.language import tr


class HistoryInUse(UserFixable):
    """The history is in use by another process: nothing is wrong with it."""


class FileLock:
    """An exclusive lock on a sidecar file, held from creation to `release`.

    The lock is the operating system's, not the file's existence, so a killed process leaves
    nothing that blocks the next one.

    Raises:
        HistoryInUse: another process holds it.
        UserFixable: the place cannot be written or locked.
    """

    def __init__(self, path: Path) -> None:
        self._file = _open(path)
        try:
            _lock(self._file)
        except (BlockingIOError, PermissionError) as error:
            self._file.close()
            raise HistoryInUse(
                tr("Another Duotail window is already using your conversations."),
                tr("Use that window, or close it and start again."),
                f"{path}: {error}",
            ) from error
        except OSError as error:
            self._file.close()
            raise UserFixable(
                tr("The folder {folder} is on a drive that cannot lock files.").format(
                    folder=path.parent
                ),
                tr("Move Duotail's data folder to a local drive."),
                f"{path}: {error}",
            ) from error

    def release(self) -> None:
        """Let the next process in. The sidecar file stays: removing it would race."""
        if not self._file.closed:
            with contextlib.suppress(OSError):
                _unlock(self._file)
            self._file.close()


def _open(path: Path) -> BinaryIO:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b", buffering=0)
    except OSError as error:
        words = (
            tr("The folder {folder} cannot be written to.").format(folder=path.parent),
            tr("Make it writable for your user, or point Duotail at another data folder."),
        )
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            words = full_words(path.parent)
        raise NoPlace(*words, f"{path}: {error}") from error


if sys.platform == "win32":
    import msvcrt

    def _lock(file: BinaryIO) -> None:
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

    def _unlock(file: BinaryIO) -> None:
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _lock(file: BinaryIO) -> None:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(file: BinaryIO) -> None:
        fcntl.flock(file.fileno(), fcntl.LOCK_UN)
