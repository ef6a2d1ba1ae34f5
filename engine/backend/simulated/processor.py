"""The processor of a simulated accelerator: one call after the other, on a core of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Lock
from time import perf_counter
from types import TracebackType
from typing import Self

from engine.backend.device import Transfers
from engine.backend.native.library import library
from engine.backend.simulated.spec import SimulatedSpec, simulated_name, simulated_speeds
from engine.errors import DeviceLost
from engine.language import tr

PATIENCE_S = 0.05
"""A waiting call asks so often whether the user has stopped it."""
SPIN_S = 250e-6
"""The last moments of a wait are not slept: sleepers wake up late by about as much."""


@dataclass(slots=True)
class Copies:
    """Copies over the link in one direction."""

    count: int = 0
    nbytes: int = 0

    def add(self, nbytes: int) -> None:
        """Count one."""
        self.count += 1
        self.nbytes += nbytes


class Processor:
    """Serves one call at a time: `with processor: ...`, which ends when its declared time is over.

    Inside, the calling thread has the device's core, and tells what the call is worth: `computes`,
    `receives`, `sends`.

    Args:
        spec: what the device declares.

    Attributes:
        speeds, link: the same, as the cost model sees it.
        core: what it computes on; None where threads cannot choose, or there is one core only.
        interrupted: asked while a call waits for its declared time; true ends the waiting.
        received, sent: copies to the device and from it.
        transfers: when they were, as declared.
        busy_s: seconds of all calls so far.
        declared_s: what they took as declared.
    """

    def __init__(self, spec: SimulatedSpec) -> None:
        self.speeds, self.link = simulated_speeds(spec)
        self.core = _last_core()
        self.interrupted: Callable[[], bool] = lambda: False
        self.received, self.sent = Copies(), Copies()
        self.transfers = Transfers()
        self.busy_s = self.declared_s = 0.0
        self._lock = Lock()
        self._lost = Event()
        self._start = self._declared = self._receiving = self._sending = 0.0
        self._before: Iterable[int] | None = None

    def lose(self) -> None:
        """Fail all calls from now on, one under way included."""
        self._lost.set()

    def check(self) -> None:
        """Raise `DeviceLost` if the device is lost."""
        if self._lost.is_set():
            raise DeviceLost(
                tr("{device} does not answer any more.").format(device=simulated_name()),
                tr("Load the model again: it then runs on what is left."),
            )

    def computes(self, seconds: float) -> None:
        """Add so many seconds of computing to the call."""
        self._declared += seconds

    def receives(self, nbytes: int) -> None:
        """Add a copy to the device."""
        self.received.add(nbytes)
        seconds = self.link.latency_s + nbytes / self.link.to_bytes_per_s
        self._declared += seconds
        self._receiving += seconds

    def sends(self, nbytes: int) -> None:
        """Add a copy back to the host."""
        self.sent.add(nbytes)
        seconds = self.link.latency_s + nbytes / self.link.from_bytes_per_s
        self._declared += seconds
        self._sending += seconds

    def __enter__(self) -> Self:
        self._lock.acquire()
        try:
            self.check()
        except DeviceLost:
            self._lock.release()
            raise
        self._receiving = self._sending = 0.0
        self._start, self._declared = perf_counter(), self.speeds.forward_s
        self._take_core()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._wait(self._start + self._declared)
                self.check()
        finally:
            self._leave_core()
            end = perf_counter()
            self.declared_s += self._declared
            self.busy_s += end - self._start
            self._note_copies(end)
            self._lock.release()

    def _note_copies(self, end: float) -> None:
        """A call begins with what it receives and ends with what it sends, as long as declared."""
        if self._receiving:
            self.transfers.note(self._start, min(self._start + self._receiving, end))
        if self._sending:
            self.transfers.note(max(end - self._sending, self._start), end)

    def _wait(self, end: float) -> None:
        let_others = library().dt_current_isa  # a native call gives the GIL up; sleep(0) sleeps
        while (left := end - perf_counter()) > 0 and not self._lost.is_set():
            if left <= SPIN_S:
                let_others()
            elif self.interrupted():
                return
            else:
                self._lost.wait(min(left - SPIN_S, PATIENCE_S))

    if sys.platform == "linux":

        def _take_core(self) -> None:
            if self.core is not None:
                self._before = os.sched_getaffinity(0)
                with suppress(OSError):  # it was taken from the process
                    os.sched_setaffinity(0, {self.core})

        def _leave_core(self) -> None:
            if self._before is not None:
                with suppress(OSError):
                    os.sched_setaffinity(0, self._before)
                self._before = None

    else:

        def _take_core(self) -> None: ...

        def _leave_core(self) -> None: ...


def _last_core() -> int | None:
    if sys.platform != "linux":
        return None
    cores = os.sched_getaffinity(0)
    return max(cores) if len(cores) > 1 else None
