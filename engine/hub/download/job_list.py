"""The list of downloads in memory: what is known of each job, and whose turn it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from engine.hub.download.cache import CachePlace
from engine.hub.download.job import Job, JobReport, JobState
from engine.hub.download.kept_jobs import KeptJob, read_jobs, write_jobs
from engine.hub.download.space import bytes_here
from engine.hub.download.speed import DownloadSpeed
from engine.hub.remote.listing import Access

AT_WORK = (JobState.FETCHING, JobState.CHECKING)


@dataclass(slots=True)
class JobEntry:
    """A job and all that is known of it.

    Attributes:
        cache: the chosen folder of its files.
        access: how to get to the hub; None of a job of an earlier run that nobody resumed.
        due: when to begin, in seconds of the monotonic clock.
        interrupted: an earlier run of the program ended in the middle of it.
        returns: how often in a row it had to wait for better times.
        deaths: of its process in a row, without a byte.
        cause, remedy, details, fault: what went wrong last.
    """

    job: Job
    state: JobState
    cache: str | None = None
    access: Access | None = None
    done: int = 0
    model: str | None = None
    due: float = 0.0
    interrupted: bool = False
    returns: int = 0
    deaths: int = 0
    cause: str = ""
    remedy: str = ""
    details: str = ""
    fault: str = ""
    speed: DownloadSpeed = field(default_factory=DownloadSpeed)

    @property
    def place(self) -> CachePlace:
        """Where its files are."""
        return CachePlace.of(self.job, self.cache)

    def go(self, access: Access) -> None:
        """Have it fetched as soon as it is its turn."""
        self.access, self.cache = access, access.cache
        self.returns = self.deaths = 0
        self.turn(JobState.WAITING)

    def turn(self, state: JobState, due: float = 0.0) -> None:
        """Another state; what went wrong before is forgotten."""
        self.state, self.due, self.interrupted = state, due, False
        self.model = None
        self.explain()
        self.speed = DownloadSpeed()

    def explain(
        self, cause: str = "", remedy: str = "", details: str = "", fault: str = ""
    ) -> None:
        """What went wrong."""
        self.cause, self.remedy, self.details, self.fault = cause, remedy, details, fault

    def report(self, now: float) -> JobReport:
        """For the user."""
        working = self.state is JobState.FETCHING
        return JobReport(
            self.job,
            self.state,
            self.done,
            self.speed.bytes_per_second(now) if working else None,
            self.speed.seconds_left(now, self.job.nbytes - self.done) if working else None,
            self.model,
            self.cause,
            self.remedy,
            self.details,
            self.fault,
        )

    def kept(self) -> KeptJob:
        """For the disk."""
        state = JobState.WAITING if self.interrupted else self.state
        words = (self.cause, self.remedy, self.details, self.fault)
        return KeptJob(self.job, state, self.cache, self.model, *words)


class JobList:
    """The jobs in their order; whoever uses it sees to it that one thread does at a time.

    Args:
        path: the file that they are kept in.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        entries = map(_entry, read_jobs(path))
        self._entries = {entry.job.key: entry for entry in entries}

    def __iter__(self) -> Iterator[JobEntry]:
        return iter(self._entries.values())

    def find(self, key: str) -> JobEntry | None:
        """The job of this key."""
        return self._entries.get(key)

    def add(self, job: Job, access: Access) -> None:
        """One more, or one that is there already once more."""
        entry = self._entries.setdefault(job.key, JobEntry(job, JobState.WAITING))
        entry.job = job
        entry.go(access)
        entry.done = bytes_here(job, entry.place)

    def remove(self, key: str) -> JobEntry | None:
        """Take one off the list."""
        return self._entries.pop(key, None)

    def move(self, key: str, place: int) -> None:
        """Put one at this place in the order."""
        if key in self._entries:
            keys = [other for other in self._entries if other != key]
            keys.insert(max(place, 0), key)
            self._entries = {each: self._entries[each] for each in keys}

    def next(self, now: float) -> JobEntry | None:
        """The first that waits and may begin."""
        ready = (entry for entry in self._waiting() if entry.due <= now)
        return next(ready, None)

    def seconds_to_next(self, now: float) -> float | None:
        """Until one that waits may begin; None: there is none."""
        return min((max(entry.due - now, 0.0) for entry in self._waiting()), default=None)

    def _waiting(self) -> Iterable[JobEntry]:
        return (
            entry
            for entry in self._entries.values()
            if entry.state is JobState.WAITING and entry.access is not None
        )

    def reports(self, now: float) -> tuple[JobReport, ...]:
        """All of them for the user."""
        return tuple(entry.report(now) for entry in self)

    def save(self) -> None:
        """Keep them on the disk.

        Raises:
            UserFixable: the folder cannot be written.
        """
        write_jobs(self._path, [entry.kept() for entry in self])


def _entry(kept: KeptJob) -> JobEntry:
    """As it is at the start of the program: nothing goes on before somebody says so."""
    state = JobState.PAUSED if kept.interrupted else kept.state
    entry = JobEntry(kept.job, state, kept.cache, model=kept.model, interrupted=kept.interrupted)
    entry.explain(kept.cause, kept.remedy, kept.details, kept.fault)
    entry.done = bytes_here(kept.job, entry.place)
    return entry
