"""Jobs: how far each is and how fast it comes, whose turn it is, and what outlives the program."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from engine.errors import UserFixable
from engine.hardware.typed_json import decoded, encoded
from engine.hub.download.cache import CachePlace, bytes_here
from engine.hub.json_file import write_json
from engine.hub.messages import Access, Job
from engine.language import tr


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


_log = logging.getLogger(__name__)

_VERSION = 1
AT_WORK = (JobState.FETCHING, JobState.CHECKING)


@dataclass(frozen=True, slots=True)
class KeptJob:
    """A job as it outlives the program.

    Attributes:
        cache: the folder that was chosen for its files; None: the usual one.
        cause, remedy, details, fault: as in `JobReport`.
    """

    job: Job
    state: JobState
    cache: str | None = None
    model: str | None = None
    cause: str = ""
    remedy: str = ""
    details: str = ""
    fault: str = ""


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
        words: cause, remedy, details and fault of what went wrong last.
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
    words: tuple[str, str, str, str] = ("", "", "", "")
    speed: DownloadSpeed = field(default_factory=DownloadSpeed)

    @classmethod
    def of(cls, kept: KeptJob) -> JobEntry:
        """Return a job at the start of the program: it waits until somebody says to go on."""
        interrupted = kept.state in (JobState.WAITING, *AT_WORK)
        state = JobState.PAUSED if interrupted else kept.state
        words = (kept.cause, kept.remedy, kept.details, kept.fault)
        entry = cls(
            kept.job, state, kept.cache, model=kept.model, interrupted=interrupted, words=words
        )
        entry.done = bytes_here(kept.job, entry.place)
        return entry

    @property
    def place(self) -> CachePlace:
        """Place of its files in the cache."""
        return CachePlace.of(self.job, self.cache)

    def go(self, access: Access) -> None:
        """Have it fetched as soon as it is its turn."""
        self.access, self.cache = access, access.cache
        self.returns = self.deaths = 0
        self.turn(JobState.WAITING)

    def turn(self, state: JobState, due: float = 0.0) -> None:
        """Set another state; what went wrong before is forgotten."""
        self.state, self.due, self.interrupted = state, due, False
        self.model = None
        self.explain()
        self.speed = DownloadSpeed()

    def explain(
        self, cause: str = "", remedy: str = "", details: str = "", fault: str = ""
    ) -> None:
        """Keep the words for what went wrong."""
        self.words = cause, remedy, details, fault

    def report(self, now: float) -> JobReport:
        """Return how far it is, for the user."""
        speed = left = None
        if self.state is JobState.FETCHING:
            speed = self.speed.bytes_per_second(now)
            left = self.speed.seconds_left(now, self.job.nbytes - self.done)
        return JobReport(self.job, self.state, self.done, speed, left, self.model, *self.words)

    def kept(self) -> KeptJob:
        """Return what outlives the program."""
        state = JobState.WAITING if self.interrupted else self.state
        return KeptJob(self.job, state, self.cache, self.model, *self.words)


class JobList:
    """The jobs in their order; whoever uses it sees to it that one thread does at a time.

    Args:
        path: the file that they are kept in.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        entries = map(JobEntry.of, read_jobs(path))
        self._entries = {entry.job.key: entry for entry in entries}

    def __iter__(self) -> Iterator[JobEntry]:
        return iter(self._entries.values())

    def find(self, key: str) -> JobEntry | None:
        """Return the job of this key."""
        return self._entries.get(key)

    def add(self, job: Job, access: Access) -> None:
        """Add a job, or have one that is there fetched once more."""
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
        write_jobs(self._path, [entry.kept() for entry in self])


def read_jobs(path: Path) -> list[KeptJob]:
    """Return the jobs in a file; an unreadable one is kept beside it as `*.bad`.

    What a newer version has written and this one does not understand is left out.
    """
    try:
        entries = list(json.loads(path.read_text(encoding="utf-8"))["jobs"])
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        _log.warning("the list of downloads is unreadable: %s", error)
        with contextlib.suppress(OSError):
            os.replace(path, path.with_suffix(path.suffix + ".bad"))
        return []
    jobs = []
    for entry in entries:
        try:
            jobs.append(decoded(KeptJob, entry, path.name))
        except ValueError as error:
            _log.warning("a download is left out of the list: %s", error)
    return jobs


def write_jobs(path: Path, jobs: Iterable[KeptJob]) -> None:
    """Write the jobs in one go.

    Raises:
        UserFixable: the folder cannot be written.
    """
    try:
        write_json(path, {"version": _VERSION, "jobs": [encoded(job) for job in jobs]})
    except OSError as error:
        raise UserFixable(
            tr("The list of downloads could not be saved."),
            tr("Make the folder {folder} writable for your user.").format(folder=path.parent),
            str(error),
        ) from error
