"""What a download that was given up leaves behind, taken away."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from engine.hub.download.cache import CachePlace, blob_name
from engine.hub.download.job import Job


def discard(job: Job, place: CachePlace, others: Iterable[Job]) -> None:
    """Delete what only this job has fetched and nothing uses: no other job, no snapshot.

    A model that was whole before, or that another program has, keeps all its files.
    """
    wanted = {blob_name(file) for other in others if other.repo == job.repo for file in other.files}
    used = _linked(place)
    for file in job.files:
        if blob_name(file) in wanted:
            continue
        with contextlib.suppress(OSError):
            place.partial(file).unlink()
        blob = place.blob(file)
        if blob.name not in used:
            with contextlib.suppress(OSError):
                blob.unlink()
    if job.wheel is not None:
        with contextlib.suppress(OSError):
            place.partial(job.wheel.file).unlink()
    _remove_empty(place.cache / place.name / "blobs", place.cache)


def _linked(place: CachePlace) -> set[str]:
    """The names of blobs that any snapshot of the repository links to."""
    snapshots = place.snapshot.parent
    links = snapshots.rglob("*") if snapshots.is_dir() else ()
    return {link.readlink().name for link in links if link.is_symlink()}


def _remove_empty(folder: Path, until: Path) -> None:
    """Folders that hold nothing any more."""
    with contextlib.suppress(OSError):
        while folder != until and until in folder.parents:
            folder.rmdir()
            folder = folder.parent
