"""Files that are there whole or as they were before."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from engine.errors import UserFixable
from engine.language import tr


def write_whole(file: Path, content: bytes) -> None:
    """Write a file so that it is there whole or as it was before.

    Raises:
        UserFixable: the disk is full, or cannot be written to.
    """
    _writing(file, lambda: _replace(file, content))


def _replace(file: Path, content: bytes) -> None:
    new = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with new.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        new.replace(file)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def _writing(file: Path, write: Callable[[], None]) -> None:
    try:
        write()
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise UserFixable(
            (tr("The disk is full: {file} was not written.") if full else
             tr("{file} cannot be written.")).format(file=file),
            tr("Make room, then go on with --resume.") if full else
            tr("Choose a folder that you may write to."),
            str(error),
        ) from error  # fmt: skip
