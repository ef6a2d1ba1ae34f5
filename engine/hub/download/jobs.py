"""Jobs: how far each is and how fast it comes, whose turn it is, and what outlives the program."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from engine.errors import UserFixable
from engine.hub.download.cache import CachePlace, bytes_here
from engine.hub.messages import Access, Job
from engine.kept_files import read_list, write_list
from engine.language import tr

_NAME = "jobs"
"""Name of the list in its file."""


class JobState(StrEnum):
    """States of a job."""

    WAITING = "waiting"
    FETCHING = "fetching"
    CHECKING = "checking"
    PAUSED = "paused"
    FAILED = "failed"
    DONE = "done"


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
        cache: the folder that was chosen for its files; None: the usual one.
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
    cache: str | None = None


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


_log = logging.getLogger(__name__)

AT_WORK = (JobState.FETCHING, JobState.CHECKING)


@dataclass(slots=True)
class JobEntry:
    """A job of the list.

    Attributes:
        told: how far it is; this is what outlives the program.
        access: how to get to the hub; None of a job of an earlier run that nobody resumed.
        due: when to begin, in seconds of the monotonic clock.
        interrupted: an earlier run of the program ended in the middle of it.
        returns: how often in a row it had to wait for better times.
        deaths: of its process in a row, without a byte.
    """

    told: JobReport
    access: Access | None = None
    due: float = 0.0
    interrupted: bool = False
    returns: int = 0
    deaths: int = 0
    speed: DownloadSpeed = field(default_factory=DownloadSpeed)

    @classmethod
    def of(cls, kept: JobReport) -> JobEntry:
        """Return a job at the start of the program: it waits until somebody says to go on."""
        interrupted = kept.state in (JobState.WAITING, *AT_WORK)
        state = JobState.PAUSED if interrupted else kept.state
        entry = cls(replace(kept, state=state), interrupted=interrupted)
        entry.look()
        return entry

    @property
    def job(self) -> Job:
        """Files to fetch."""
        return self.told.job

    @property
    def state(self) -> JobState:
        """State of the job."""
        return self.told.state

    @property
    def place(self) -> CachePlace:
        """Place of its files in the cache."""
        return CachePlace.of(self.job, self.told.cache)

    def look(self) -> None:
        """Find out how much of it is on the disk."""
        self.told = replace(self.told, done=bytes_here(self.job, self.place))

    def go(self, access: Access) -> None:
        """Have it fetched as soon as it is its turn."""
        self.access, self.told = access, replace(self.told, cache=access.cache)
        self.returns = self.deaths = 0
        self.turn(JobState.WAITING)

    def turn(
        self, state: JobState, due: float = 0.0, why: UserFixable | None = None, fault: str = ""
    ) -> None:
        """Set another state and why it came to it; what went wrong before is forgotten."""
        said = (why.cause, why.remedy, why.details) if why is not None else ("", "", "")
        self.told = replace(
            self.told,
            state=state,
            model=None,
            cause=said[0],
            remedy=said[1],
            details=said[2],
            fault=fault,
        )
        self.due, self.interrupted, self.speed = due, False, DownloadSpeed()

    def report(self, now: float) -> JobReport:
        """Return how far it is, for the user."""
        if self.state is not JobState.FETCHING:
            return self.told
        return replace(
            self.told,
            bytes_per_second=self.speed.bytes_per_second(now),
            seconds_left=self.speed.seconds_left(now, self.job.nbytes - self.told.done),
        )

    def kept(self) -> JobReport:
        """Return what outlives the program."""
        return replace(self.told, state=JobState.WAITING) if self.interrupted else self.told


class JobList:
    """The jobs in their order; whoever uses it sees to it that one thread does at a time.

    Args:
        path: the file that they are kept in.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            kept = read_list(path, _NAME, JobReport)
        except OSError as error:
            _log.warning("the list of downloads is unreadable: %s", error)
            kept = []
        self._entries = {entry.job.key: entry for entry in map(JobEntry.of, kept)}

    def __iter__(self) -> Iterator[JobEntry]:
        return iter(self._entries.values())

    def find(self, key: str) -> JobEntry | None:
        """Return the job of this key."""
        return self._entries.get(key)

    def add(self, job: Job, access: Access) -> None:
        """Add a job, or have one that is there fetched once more."""
        new = JobReport(job, JobState.WAITING)
        entry = self._entries.setdefault(job.key, JobEntry(new))
        entry.told = new
        entry.go(access)
        entry.look()

    def remove(self, key: str) -> JobEntry | None:
        """Take one off the list."""
        return self._entries.pop(key, None)

    def next(self, now: float) -> JobEntry | None:
        """Return the first job that waits and may begin."""
        ready = (entry for entry in self._waiting() if entry.due <= now)
        return next(ready, None)

    def seconds_to_next(self, now: float) -> float | None:
        """Return the time until a waiting job may begin; None: there is none."""
        return min((max(entry.due - now, 0.0) for entry in self._waiting()), default=None)

    def _waiting(self) -> Iterable[JobEntry]:
        return (
            entry
            for entry in self._entries.values()
            if entry.state is JobState.WAITING and entry.access is not None
        )

    def reports(self, now: float) -> tuple[JobReport, ...]:
        """Return the reports of all jobs."""
        return tuple(entry.report(now) for entry in self)

    def save(self) -> None:
        """Keep them on the disk.

        Raises:
            UserFixable: the folder cannot be written.
        """
        try:
            write_list(self._path, _NAME, [entry.kept() for entry in self])
        except OSError as error:
            raise UserFixable(
                tr("The list of downloads could not be saved."),
                tr("Make the folder {folder} writable for your user.").format(
                    folder=self._path.parent
                ),
                str(error),
            ) from error
