"""Files that the user saves: written whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices

from engine.errors import UserFixable
from engine.language import tr


def write(path: Path, content: Callable[[], bytes]) -> None:
    """Write a file whole or not at all.

    Raises:
        UserFixable: it cannot be written.
    """
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_bytes(content())
        os.replace(part, path)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        cause = tr("{name} could not be written.").format(name=path.name)
        raise UserFixable(cause, _remedy(error, path.parent), str(error)) from error


def show_folder(path: Path) -> None:
    """Open a folder, or the folder of a file, in the system's file manager."""
    folder = path if path.is_dir() else path.parent
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))


def _remedy(error: OSError, folder: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return tr("The drive is full: free some space, or choose another folder.")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return tr("You may not write to {folder}: choose another folder.").format(folder=folder)
    return tr("Check that the drive is connected, or choose another folder.")
