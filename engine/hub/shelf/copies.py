"""Copying a model's files: into a folder that appears whole or not at all, each file compared."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from engine.errors import Cancelled, UserFixable
from engine.hub.hashes import sha256_of
from engine.language import tr
from engine.language.units import file_size

_PIECE = 4 << 20
_SPARE = 256 << 20
"""Bytes of a disk that are left free."""
_UNFINISHED = re.compile(r"\.copying-(\d+)-(\d+)-[0-9a-f]{8}", re.ASCII)


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """Progress of a copy, in bytes; `checking`: the copies are read again."""

    done: int
    total: int
    checking: bool = False


Tell = Callable[[CopyProgress], None]
Stopped = Callable[[], bool]


def copy_all(
    files: Mapping[str, Path], folder: Path, tell: Tell, stopped: Stopped
) -> dict[str, str]:
    """Copy files into a new folder, and compare what was written with what was read.

    Nothing is left behind where that does not succeed; what a killed program leaves behind goes
    with the next `clear_unfinished`.

    Args:
        files: names in the folder -> what is copied.
        folder: that is to be made; it is there when all is.

    Returns:
        The sha256 of each file by its name.

    Raises:
        Cancelled: `stopped` said so.
        UserFixable: no room, or a file cannot be read or written.
    """
    total = sum(file.stat().st_size for file in files.values())
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        check_room(folder.parent, total)
        part = folder.parent / _unfinished_name()
        part.mkdir()
    except OSError as error:
        raise UserFixable(
            tr("Nothing can be written to {folder}.").format(folder=folder.parent),
            tr("Make the folder writable for your user, or choose another one."),
            str(error),
        ) from error
    try:
        hashes = _copied(files, part, total, tell, stopped)
        os.rename(part, folder)
    except OSError as error:
        raise UserFixable(
            tr("The model could not be copied."),
            tr("Check that the drives are connected, and that there is room."),
            str(error),
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return hashes


def checked_bytes(total: int, tell: Tell) -> Callable[[int], None]:
    """Return what hears the size of each piece that is read again, and tells how many there were.

    Args:
        total: bytes in all.
        tell: hears the sum.
    """
    done = 0

    def heard(nbytes: int) -> None:
        nonlocal done
        done += nbytes
        tell(CopyProgress(done, total, checking=True))

    return heard


def check_room(folder: Path, needed: int) -> None:
    """Check that a disk has room for so many bytes, and a little more.

    Raises:
        UserFixable: it has not.
        OSError: the folder is not there.
    """
    free = shutil.disk_usage(folder).free
    if free >= needed + _SPARE:
        return
    raise UserFixable(
        tr("There is not enough room: {needed} are needed and {free} are free.").format(
            needed=file_size(needed + _SPARE), free=file_size(free)
        ),
        tr("Delete what you do not need, or choose a folder on another disk."),
        str(folder),
    )


def clear_unfinished(folder: Path) -> None:
    """Delete what programs have left behind that were killed while they copied."""
    try:
        entries = list(folder.iterdir())
    except OSError:
        return
    for entry in entries:
        match = _UNFINISHED.fullmatch(entry.name)
        if match is not None and not _runs(int(match[1]), int(match[2])):
            shutil.rmtree(entry, ignore_errors=True)


def _copied(
    files: Mapping[str, Path], part: Path, total: int, tell: Tell, stopped: Stopped
) -> dict[str, str]:
    done = 0
    hashes: dict[str, str] = {}
    for name, file in files.items():
        digest = hashlib.sha256()
        with file.open("rb") as source, (part / name).open("xb") as target:
            while piece := source.read(_PIECE):
                if stopped():
                    raise Cancelled
                digest.update(piece)
                target.write(piece)
                done += len(piece)
                tell(CopyProgress(done, total))
            target.flush()
            os.fsync(target.fileno())
        hashes[name] = digest.hexdigest()
    told = checked_bytes(total, tell)
    for name, wanted in hashes.items():
        if sha256_of(part / name, told, stopped) != wanted:
            raise UserFixable(
                tr("{file} was copied wrongly: the disk did not keep what was written.").format(
                    file=name
                ),
                tr("Check the disk, or choose a folder on another one."),
                str(part),
            )
    return hashes


def _unfinished_name() -> str:
    """Return a name that tells this very process from a later one of the same number."""
    return f".copying-{os.getpid()}-{_started(os.getpid())}-{secrets.token_hex(4)}"


def _started(process: int) -> int:
    return int(psutil.Process(process).create_time())


def _runs(process: int, started: int) -> bool:
    with suppress(psutil.Error):
        return abs(_started(process) - started) <= 1
    return False
