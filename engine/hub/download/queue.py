"""The downloads: one at a time, in order, each in a process of its own that may die at any moment.

One thread starts the processes and hears them. What a user commands changes the list at once and
wakes it; only that thread calls the listener.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing import Pipe
from multiprocessing.connection import wait
from pathlib import Path

from engine.errors import UserFixable
from engine.hub.download.cache import CachePlace, discard, make_sure_of_room
from engine.hub.download.jobs import AT_WORK, DownloadRules, JobEntry, JobList, JobReport, JobState
from engine.hub.download.worker import FetchProcess
from engine.hub.messages import Access, Answer, Fetch, FetchedModel, FetchProgress, Job, Refused
from engine.hub.remote.faults import BY_CHOICE, Fault
from engine.language import tr

Listener = Callable[[tuple[JobReport, ...]], None]

_log = logging.getLogger(__name__)

_LOOK_S = 1.0
"""While a file comes: so often a speed is told that may have become none."""
_END_S = 20.0


class Downloads:
    """Fetches models, remembers what is to be fetched, tells how far it is.

    Args:
        folder: where the list is kept.
        listener: told all reports whenever one has changed, by a thread of this object.
        rules: how patient and how careful to be.
    """

    def __init__(
        self, folder: Path, listener: Listener, rules: DownloadRules | None = None
    ) -> None:
        self._listener, self._rules = listener, rules or DownloadRules()
        self._notes = folder / "checked.json"
        self._jobs = JobList(folder / "downloads.json")
        self._gate = threading.RLock()
        self._running: FetchProcess | None = None
        self._given_up: list[JobEntry] = []
        self._closed = False
        self._told: tuple[JobReport, ...] | None = None
        self._woken, self._wake = Pipe(duplex=False)
        self._thread: threading.Thread | None = None

    def reports(self) -> tuple[JobReport, ...]:
        """Return the reports of all jobs, in their order."""
        with self._gate:
            return self._jobs.reports(time.monotonic())

    def add(self, jobs: Sequence[Job], access: Access) -> None:
        """Fetch these too, after the others.

        Raises:
            UserFixable: there is no room for them, or the list cannot be kept.
        """
        with self._gate:
            keys = {job.key for job in jobs}
            wanted = [
                (entry.job, entry.place)
                for entry in self._jobs
                if entry.job.key not in keys and entry.state in (JobState.WAITING, *AT_WORK)
            ]
            wanted += [(job, CachePlace.of(job, access.cache)) for job in jobs]
            make_sure_of_room(wanted, self._rules.reserve)
            for job in jobs:
                entry = self._jobs.find(job.key)
                if entry is None or entry.state not in AT_WORK:
                    self._jobs.add(job, access)
            self._given_up = [entry for entry in self._given_up if entry.job.key not in keys]
            self._commanded()

    def pause(self, key: str) -> None:
        """Stop one for now; what is on the disk stays there."""
        with self._gate:
            entry = self._jobs.find(key)
            if entry is not None and entry.state in (JobState.WAITING, *AT_WORK):
                self._stop(key)
                entry.turn(JobState.PAUSED)
                self._commanded()

    def resume(self, key: str, access: Access) -> None:
        """Go on with one, or try again what has failed."""
        with self._gate:
            entry = self._jobs.find(key)
            if entry is not None and entry.state not in AT_WORK:
                entry.go(access)
                self._commanded()

    def go_on(self, access: Access) -> None:
        """Resume all that the end of the program stopped, and not the user."""
        with self._gate:
            for entry in self._jobs:
                if entry.interrupted:
                    entry.go(access)
            self._commanded()

    def cancel(self, key: str) -> None:
        """Give one up, or take one that is over off the list."""
        with self._gate:
            entry = self._jobs.remove(key)
            if entry is not None:
                self._stop(key)
                if entry.state is not JobState.DONE:
                    self._given_up.append(entry)
                self._commanded()

    def close(self) -> None:
        """End the process and the thread; what is not done goes on at another time."""
        with self._gate:
            if self._closed:
                return
            self._closed = True
            thread, self._thread = self._thread, None
            if self._running is not None:
                self._running.kill()
            self._wake.send_bytes(b"close")
        if thread is not None:
            thread.join(_END_S)
        self._woken.close()
        self._wake.close()

    def _stop(self, key: str) -> None:
        if self._running is not None and self._running.key == key:
            self._running.kill()  # the thread hears of it

    def _commanded(self) -> None:
        """Keep the list and have the thread look at it."""
        self._jobs.save()
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._run, name="downloads", daemon=True)
            self._thread.start()
        if not self._closed:
            self._wake.send_bytes(b"look")

    # -- the thread ------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._gate:
                if self._closed:
                    break
                self._take_away()
                self._start_next()
                running, pause = self._running, self._jobs.seconds_to_next(time.monotonic())
            self._tell()
            pipes = [self._woken] if running is None else [self._woken, running.pipe]
            for pipe in wait(pipes, pause if running is None else _LOOK_S):
                if pipe is self._woken:
                    self._woken.recv_bytes()
                elif running is not None:
                    self._hear(running, running.receive())
        if self._running is not None:
            self._running.close()
            self._running = None
        self._take_away()

    def _take_away(self) -> None:
        """Delete what jobs that were given up have left, once nobody writes it any more."""
        running = self._running.key if self._running is not None else None
        ready = [entry for entry in self._given_up if entry.job.key != running]
        self._given_up = [entry for entry in self._given_up if entry.job.key == running]
        for entry in ready:
            discard(entry.job, entry.place, [other.job for other in self._jobs])

    def _start_next(self) -> None:
        entry = self._jobs.next(time.monotonic())
        if self._running is not None or entry is None or entry.access is None:
            return
        entry.turn(JobState.FETCHING)
        try:
            self._running = FetchProcess(Fetch(entry.access, entry.job), self._rules, self._notes)
        except OSError as error:
            self._died(entry, str(error))
        self._save()

    def _hear(self, running: FetchProcess, answer: Answer | None) -> None:
        with self._gate:
            entry = self._jobs.find(running.key)
            match answer:
                case FetchProgress() if entry is not None and entry.state in AT_WORK:
                    self._progress(entry, answer)
                case FetchedModel() if entry is not None:
                    entry.turn(JobState.DONE)
                    entry.told = replace(entry.told, done=entry.job.nbytes, model=answer.model)
                    self._save()
                case Refused() if entry is not None and entry.state in AT_WORK:
                    self._refused(entry, answer)
                    self._save()
                case None:
                    running.close()
                    self._running = None
                    if entry is not None and entry.state in AT_WORK:
                        self._died(entry)
                        self._save()

    def _progress(self, entry: JobEntry, heard: FetchProgress) -> None:
        if heard.done > entry.told.done:
            entry.returns = entry.deaths = 0
        state = JobState.CHECKING if heard.checking else JobState.FETCHING
        entry.told = replace(entry.told, state=state, done=heard.done)
        entry.speed.add(time.monotonic(), heard.done)

    def _refused(self, entry: JobEntry, heard: Refused) -> None:
        why = UserFixable(heard.cause, heard.remedy, heard.details)
        offline = heard.kind == Fault.OFFLINE and BY_CHOICE not in heard.details
        if heard.retry_s is None and not offline:
            entry.turn(JobState.FAILED, why=why, fault=heard.kind)
            return
        wait_s = min(self._rules.come_back_s * 2**entry.returns, self._rules.longest_s)
        entry.returns = min(entry.returns + 1, 20)
        due = time.monotonic() + max(heard.retry_s or 0.0, wait_s)
        entry.turn(JobState.WAITING, due, why, heard.kind)

    def _died(self, entry: JobEntry, details: str = "") -> None:
        entry.deaths += 1
        if entry.deaths < self._rules.deaths:
            entry.turn(JobState.WAITING)
            return
        remedy = tr("Try again; what is already downloaded is kept.")
        why = UserFixable(tr("The download stopped unexpectedly."), remedy, details)
        entry.turn(JobState.FAILED, why=why)

    def _save(self) -> None:
        try:
            self._jobs.save()
        except UserFixable as error:
            _log.warning("%s %s", error, error.details)

    def _tell(self) -> None:
        reports = self.reports()
        if reports != self._told:
            self._told = reports
            try:
                self._listener(reports)
            except Exception:  # noqa: BLE001 - downloads go on
                _log.exception("a listener failed")
