"""The list of downloads: what is known of each job, whose turn it is, what outlives the program."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from engine.errors import UserFixable
from engine.hub.download.cache import CachePlace, bytes_here
from engine.hub.download.job import DownloadSpeed, Job, JobReport, JobState, Wheel
from engine.hub.remote.listing import Access, Packaging, RemoteFile
from engine.language import tr

_log = logging.getLogger(__name__)

_VERSION = 1
_ENDED = (JobState.PAUSED, JobState.FAILED, JobState.DONE)


@dataclass(frozen=True, slots=True)
class KeptJob:
    """A job with what outlives the program.

    Attributes:
        cache: the folder that was chosen for its files; None: the usual one.
    """

    job: Job
    state: JobState
    cache: str | None = None
    model: str | None = None
    cause: str = ""
    remedy: str = ""
    details: str = ""
    fault: str = ""

    @property
    def interrupted(self) -> bool:
        """Whether the program's end stopped it, not the user."""
        return self.state not in _ENDED


def read_jobs(path: Path) -> list[KeptJob]:
    """The jobs in a file; an unreadable one is kept beside it as `*.bad`, for whoever can mend it.

    What a newer version has written and this one does not understand is left out.
    """
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))["jobs"]
        entries = list(kept)
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        _log.warning("the list of downloads is unreadable: %s", error)
        with contextlib.suppress(OSError):
            os.replace(path, path.with_suffix(path.suffix + ".bad"))
        return []
    return [job for job in map(_read, entries) if job is not None]


def write_jobs(path: Path, jobs: Iterable[KeptJob]) -> None:
    """Write them in one go.

    Raises:
        UserFixable: the folder cannot be written.
    """
    text = json.dumps({"version": _VERSION, "jobs": [asdict(job) for job in jobs]}, indent=1)
    part = path.with_suffix(".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8")
        os.replace(part, path)
    except OSError as error:
        raise UserFixable(
            tr("The list of downloads could not be saved."),
            tr("Make the folder {folder} writable for your user.").format(folder=path.parent),
            str(error),
        ) from error


def _read(entry: Any) -> KeptJob | None:  # noqa: ANN401 - whatever the file holds
    try:
        told = dict(entry["job"])
        files = tuple(RemoteFile(**file) for file in told.pop("files"))
        wheel = _wheel(told.pop("wheel", None))
        packaging = Packaging(told.pop("packaging"))
        job = Job(**told, packaging=packaging, files=files, wheel=wheel)
        others = {name: entry[name] for name in ("cache", "model", *_WORDS)}
        if not isinstance(told["key"], str) or job.nbytes < 0:
            raise TypeError(told)
        return KeptJob(job, JobState(entry["state"]), **others)
    except (KeyError, TypeError, ValueError) as error:
        _log.warning("a download is left out of the list: %s", error)
        return None


def _wheel(told: Any) -> Wheel | None:  # noqa: ANN401 - whatever the file holds
    return None if told is None else Wheel(**{**told, "file": RemoteFile(**told["file"])})


_WORDS = ("cause", "remedy", "details", "fault")


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
