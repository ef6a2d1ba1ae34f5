"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from engine.errors import UserFixable
from engine.language import tr


def write_whole(file: Path, content: bytes) -> None:
    """Write a file so that it is there whole, or as it was before.

    Raises:
        UserFixable: the disk is full, or cannot be written to.
    """
    new = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with new.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        new.replace(file)
    except BaseException as error:
        new.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _unwritten(file, error) from error
        raise


def _unwritten(file: Path, error: OSError) -> UserFixable:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        cause = tr("The disk is full: {file} was not written.")
        remedy = tr("Make room, then go on with --resume.")
    else:
        cause = tr("{file} cannot be written.")
        remedy = tr("Choose a folder that you may write to.")
    return UserFixable(cause.format(file=file), remedy, str(error))
