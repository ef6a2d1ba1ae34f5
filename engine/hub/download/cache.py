"""Where files lie in the cache that other programs share, without asking the hub's library.

The layout is the library's documented one: `models--owner--name/blobs/` has the bytes by their
hash, `snapshots/COMMIT/` has links to them by their names. A file that is not whole yet has a name
of our own beside the blobs, so that no other program's leavings are taken for ours.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from engine.hub.download.job import Job
from engine.hub.remote.listing import Packaging, RemoteFile

PARTIAL = ".duotail.incomplete"


def cache_folder(chosen: str | None) -> Path:
    """The folder of the cache: the chosen one, or the one that the hub's library would take."""
    own = chosen or os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    if own:
        return _expanded(own)
    home = os.environ.get("HF_HOME")
    if home:
        return _expanded(home) / "hub"
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return _expanded(caches) / "huggingface" / "hub"


@dataclass(frozen=True, slots=True)
class CachePlace:
    """Where a repository's files of one commit are, or will be."""

    cache: Path
    repo: str
    revision: str

    @classmethod
    def of(cls, job: Job, cache: str | None) -> CachePlace:
        """Of a job's files."""
        return cls(cache_folder(cache), job.repo, job.revision)

    @property
    def name(self) -> str:
        """The repository as a folder's name."""
        return "models--" + self.repo.replace("/", "--")

    @property
    def snapshot(self) -> Path:
        """The folder that looks like the repository."""
        return self.cache / self.name / "snapshots" / self.revision

    def blob(self, file: RemoteFile) -> Path:
        """The bytes of a file."""
        return self.cache / self.name / "blobs" / blob_name(file)

    def partial(self, file: RemoteFile) -> Path:
        """The bytes that are here so far."""
        return self.cache / self.name / "blobs" / (blob_name(file) + PARTIAL)

    def link(self, file: RemoteFile) -> Path:
        """The file by its name."""
        return self.snapshot.joinpath(*file.path.split("/"))

    def lock(self, file: RemoteFile) -> Path:
        """What the hub's library locks while it fetches the same file."""
        return self.cache / ".locks" / self.name / (blob_name(file) + ".lock")

    def whole(self, file: RemoteFile) -> Path | None:
        """The file, if it is here; nobody has looked whether it is right."""
        for path in (self.blob(file), self.link(file)):  # without links the name is the file
            try:
                if path.stat().st_size == file.nbytes:
                    return path
            except OSError:
                continue
        return None

    def on_disk(self, file: RemoteFile) -> int:
        """How many of its bytes are here."""
        if self.whole(file) is not None:
            return file.nbytes
        try:
            return min(self.partial(file).stat().st_size, file.nbytes)
        except OSError:
            return 0


def blob_name(file: RemoteFile) -> str:
    """What names the file's bytes."""
    return file.sha256 or file.git_sha1 or "nothing"


def distinct(files: Iterable[RemoteFile]) -> list[RemoteFile]:
    """The smallest first: what keeps a job from working shows early. Equal files once."""
    by_name = {blob_name(file): file for file in files}
    return sorted(by_name.values(), key=lambda file: (file.nbytes, file.path))


def model_path(job: Job, place: CachePlace) -> Path:
    """What to open of a job that is done: the folder, or the first file of a GGUF."""
    if job.packaging is Packaging.SAFETENSORS:
        return place.snapshot
    weights = [file for file in job.files if file.path.lower().endswith(".gguf")]
    return place.link(min(weights, key=lambda file: file.path)) if weights else place.snapshot


def _expanded(folder: str) -> Path:
    return Path(os.path.expandvars(folder)).expanduser()
