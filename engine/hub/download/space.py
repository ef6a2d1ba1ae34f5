"""Whether the disk has room for what is still to come."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from engine.errors import UserFixable
from engine.hub.download.cache import CachePlace, distinct
from engine.hub.download.job import Job
from engine.language import tr
from engine.units import file_size


class NoRoom(UserFixable):
    """The disk is full, or would be."""


def bytes_to_come(job: Job, place: CachePlace) -> int:
    """What is not on the disk yet."""
    return sum(file.nbytes - place.on_disk(file) for file in distinct(job.files))


def bytes_here(job: Job, place: CachePlace) -> int:
    """What is on the disk already; of a wheel, about as much of the file that is in it."""
    here = sum(place.on_disk(file) for file in job.files)
    return here if job.wheel is None else max(here, place.on_disk(job.wheel.file))


def make_sure_of_room(jobs: Iterable[tuple[Job, CachePlace]], reserve: int) -> None:
    """All these fit on the disks that they go to, and `reserve` bytes stay free.

    Raises:
        NoRoom: says how much is missing, and where.
    """
    wanted: dict[Path, int] = {}
    for job, place in jobs:
        wanted[place.cache] = wanted.get(place.cache, 0) + bytes_to_come(job, place)
    for cache, nbytes in wanted.items():
        if nbytes and nbytes + reserve > free_bytes(cache):
            raise no_room(cache, nbytes, reserve)


def no_room(cache: Path, nbytes: int, reserve: int) -> NoRoom:
    """What to say where `nbytes` are to come and do not fit."""
    missing = nbytes + reserve - free_bytes(cache)
    if missing <= 0:  # there is room, but the user may not have it
        missing = nbytes
    return NoRoom(
        tr("There is not enough space: the disk with {folder} needs {size} more.").format(
            size=file_size(missing), folder=cache
        ),
        tr("Free that much, or choose another folder for models in the settings."),
        f"to come: {nbytes}, free: {free_bytes(cache)}",
    )


def too_large(cache: Path, nbytes: int) -> UserFixable:
    """Some file systems, such as FAT32, have no files of 4 GB or more."""
    return UserFixable(
        tr("The disk with {folder} cannot hold a file of {size}.").format(
            folder=cache, size=file_size(nbytes)
        ),
        tr("Choose a folder for models on another disk in the settings."),
    )


def free_bytes(folder: Path) -> int:
    """What the user may still write on the disk of a folder, which need not be there yet."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free
