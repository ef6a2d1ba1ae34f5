"""The cache that other programs share: where its files lie, and whether there is room for more.

The layout is the one that the hub's library documents: `models--owner--name/blobs/` has the bytes
by their hash, `snapshots/COMMIT/` has links to them by their names. A file that is not whole yet
has a name of our own beside the blobs, so that no other program's leavings are taken for ours.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from engine.errors import UserFixable
from engine.hub.messages import Job, Packaging, RemoteFile
from engine.hub.remote.files import is_commit, is_mtp_head
from engine.language import tr
from engine.language.units import file_size

PREFIX = "models--"
PARTIAL = ".duotail.incomplete"


def cache_folder(chosen: str | None = None) -> Path:
    """Return the folder of the cache, by the same rules as the hub's library.

    The library reads the environment only once, and importing it takes a tenth of a second.
    `chosen` is the folder in the settings.
    """
    env = os.environ
    own = chosen or env.get("HF_HUB_CACHE") or env.get("HUGGINGFACE_HUB_CACHE")
    home = env.get("HF_HOME") or (env.get("XDG_CACHE_HOME") or "~/.cache") + "/huggingface"
    return Path(os.path.expandvars(own or home + "/hub")).expanduser().absolute()


def repository_of(path: Path) -> Path | None:
    """Return the repository's folder in the cache that a model's path lies in, if any."""
    parents = [path, *path.parents]
    for at, folder in enumerate(parents):
        inside = len(parents) > at + 2 and is_commit(folder.name)
        if inside and folder.parent.name == "snapshots":
            found = parents[at + 2]
            return found if found.name.startswith(PREFIX) else None
    return None


def snapshot_of(path: Path) -> Path | None:
    """Return the folder of the revision that a model's path lies in, if any."""
    repository = repository_of(path)
    if repository is None:
        return None
    return repository / "snapshots" / path.relative_to(repository / "snapshots").parts[0]


@dataclass(frozen=True, slots=True)
class CachePlace:
    """Place in the cache of a repository's files at one commit, present or not."""

    cache: Path
    repo: str
    revision: str

    @classmethod
    def of(cls, job: Job, cache: str | None) -> CachePlace:
        """Return where a job's files are, in the chosen cache or the usual one."""
        return cls(cache_folder(cache), job.repo, job.revision)

    @property
    def name(self) -> str:
        """The repository as a folder's name."""
        return PREFIX + self.repo.replace("/", "--")

    @property
    def snapshot(self) -> Path:
        """The folder that looks like the repository."""
        return self.cache / self.name / "snapshots" / self.revision

    def blob(self, file: RemoteFile) -> Path:
        """The bytes of a file."""
        return self.cache / self.name / "blobs" / file.blob_name

    def partial(self, file: RemoteFile) -> Path:
        """The bytes that are here so far."""
        return self.cache / self.name / "blobs" / (file.blob_name + PARTIAL)

    def link(self, file: RemoteFile) -> Path:
        """The file by its name."""
        return self.snapshot.joinpath(*file.path.split("/"))

    def lock(self, file: RemoteFile) -> Path:
        """The file that the hub's library locks while it fetches the same file."""
        return self.cache / ".locks" / self.name / (file.blob_name + ".lock")

    def whole(self, file: RemoteFile) -> Path | None:
        """Return the file if it is here, by its size; its hash is not checked."""
        for path in (self.blob(file), self.link(file)):  # without links the name is the file
            try:
                if path.stat().st_size == file.nbytes:
                    return path
            except OSError:
                continue
        return None

    def on_disk(self, file: RemoteFile) -> int:
        """Return how many of a file's bytes are here."""
        if self.whole(file) is not None:
            return file.nbytes
        try:
            return min(self.partial(file).stat().st_size, file.nbytes)
        except OSError:
            return 0


def distinct(files: Iterable[RemoteFile]) -> list[RemoteFile]:
    """Return equal files once, the smallest first: what keeps a job from working shows early."""
    by_name = {file.blob_name: file for file in files}
    return sorted(by_name.values(), key=lambda file: (file.nbytes, file.path))


def model_path(job: Job, place: CachePlace) -> Path:
    """Return what to open of a job that is done: the folder, or the first file of a GGUF."""
    if job.packaging is Packaging.SAFETENSORS:
        return place.snapshot
    weights = [
        file
        for file in job.files
        if file.path.lower().endswith(".gguf") and not is_mtp_head(file.path)
    ]
    return place.link(min(weights, key=lambda file: file.path)) if weights else place.snapshot


class NoRoom(UserFixable):
    """The disk is full, or would be."""


def bytes_to_come(job: Job, place: CachePlace) -> int:
    """Return how many of a job's bytes are not on the disk yet."""
    return sum(file.nbytes - place.on_disk(file) for file in distinct(job.files))


def bytes_here(job: Job, place: CachePlace) -> int:
    """Return how many of a job's bytes are on the disk; of a wheel, about as many as it carries."""
    here = sum(place.on_disk(file) for file in job.files)
    return here if job.wheel is None else max(here, place.on_disk(job.wheel.file))


def make_sure_of_room(jobs: Iterable[tuple[Job, CachePlace]], reserve: int) -> None:
    """Check that all these fit on the disks that they go to, and `reserve` bytes stay free.

    Raises:
        NoRoom: says how much is missing, and where.
    """
    wanted: dict[Path, int] = {}
    for job, place in jobs:
        wanted[place.cache] = wanted.get(place.cache, 0) + bytes_to_come(job, place)
    for cache, nbytes in wanted.items():
        check_room(cache, nbytes, reserve)


def check_room(folder: Path, nbytes: int, reserve: int = 256 << 20) -> None:
    """Check that so many bytes fit on the disk of a folder, and `reserve` bytes stay free.

    Raises:
        NoRoom: says how much is missing.
    """
    if nbytes and nbytes + reserve > free_bytes(folder):
        raise no_room(folder, nbytes, reserve)


def no_room(cache: Path, nbytes: int, reserve: int) -> NoRoom:
    """Return the error for `nbytes` that are to come and do not fit."""
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
    """Return the error for a file system, such as FAT32, without files of 4 GB or more."""
    return UserFixable(
        tr("The disk with {folder} cannot hold a file of {size}.").format(
            folder=cache, size=file_size(nbytes)
        ),
        tr("Choose a folder for models on another disk in the settings."),
    )


def free_bytes(folder: Path) -> int:
    """Return what the user may still write on the disk of a folder, which need not exist yet."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free


def discard(job: Job, place: CachePlace, others: Iterable[Job]) -> None:
    """Delete what only this job has fetched and nothing uses: no other job, no snapshot.

    A model that was whole before, or that another program has, keeps all its files.
    """
    wanted = {file.blob_name for other in others if other.repo == job.repo for file in other.files}
    used = _linked(place)
    for file in job.files:
        if file.blob_name in wanted:
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
    """Return the names of blobs that any snapshot of the repository links to."""
    snapshots = place.snapshot.parent
    links = snapshots.rglob("*") if snapshots.is_dir() else ()
    return {link.readlink().name for link in links if link.is_symlink()}


def _remove_empty(folder: Path, until: Path) -> None:
    """Remove a folder, and those around it, as long as they are empty."""
    with contextlib.suppress(OSError):
        while folder != until and until in folder.parents:
            folder.rmdir()
            folder = folder.parent
