"""The draft worker without its thread: dice say how far it gets between the engine's calls.

Everything that a thread can do between two calls is played by the thread of the test, in pieces as
long as a lock allows: a step begins before a commit and ends behind it, a draft that is late gets
nowhere. Time is a number that moves with every piece. The same seed is the same course of things on
any machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from engine.speculative import decoding, draft_worker, loops
from engine.speculative.draft_worker import DraftWorker, Outlook

PIECE_S = 0.01
"""Seconds that a piece of the draft's work takes, on the clock of the script."""


class VirtualClock:
    """Stands in for `perf_counter`: time passes where something is done, or waited for."""

    def __init__(self) -> None:
        self.now = 1.0

    def __call__(self) -> float:
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += seconds


class _Played:
    """Stands in for the thread of a worker."""

    def __init__(self, worker: ScriptedWorker) -> None:
        self._worker = worker

    def start(self) -> None:
        """Nothing runs by itself."""

    def join(self, _timeout: float) -> None:
        self._worker.finish()

    def is_alive(self) -> bool:
        return False


class ScriptedWorker(DraftWorker):
    """A `DraftWorker` that works while the engine thread calls it."""

    dice: np.random.Generator
    clock: VirtualClock

    def __init__(self, *arguments: Any, **wishes: Any) -> None:
        super().__init__(*arguments, **wishes)
        self._thread: Any = _Played(self)
        self._begun = False
        self._running: Callable[[], None] | None = None

    # -- the engine's calls, and what the draft does meanwhile ------------------------------------

    @property
    def ready(self) -> bool:
        self._play()
        return super().ready

    def outlook(self) -> Outlook:
        self._play()
        return super().outlook()

    def wait(self, seconds: float) -> None:
        """Until something changes: one that has waited finds more than one that has not."""
        while self._version == self._seen and self._goes_on():
            seconds -= PIECE_S
            if seconds <= 0:
                break
        self.clock.pass_by(max(seconds, 0.0))
        super().wait(0.0)

    @contextmanager
    def verifying(self) -> Iterator[None]:
        with super().verifying():
            self._play()
            yield
            self._play()

    # -- the thread's course ------------------------------------------------------------------

    def finish(self) -> None:
        """End the running step; nothing else begins."""
        if self._running is not None:
            self._attempt(self._running)

    def _play(self) -> None:
        for _ in range(int(self.dice.integers(0, 5))):
            self._goes_on()

    def _goes_on(self) -> bool:
        """The next piece of the thread's course; False where it has nothing to do."""
        self.clock.pass_by(PIECE_S)
        if self._error is not None or self._closing:
            return False
        if not self._begun:
            if self._pace is None:
                return False
            self._begun = True
            self._attempt(self._begin)
        elif self._running is not None:
            work, self._running = self._running, None
            self._attempt(work)
        else:
            with self._changed:
                self._running = self._work()
                if self._running is None:
                    self._end_span()
            return self._running is not None
        return True

    def _attempt(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  # as the thread does
            with self._changed:
                self._error = error
                self._tell()


def script_the_draft(monkeypatch: pytest.MonkeyPatch, seed: int = 0) -> None:
    """Let all drafts be played by the thread that decodes."""
    monkeypatch.setattr(ScriptedWorker, "dice", np.random.default_rng(seed), raising=False)
    monkeypatch.setattr(ScriptedWorker, "clock", VirtualClock(), raising=False)
    monkeypatch.setattr(draft_worker, "DraftWorker", ScriptedWorker)


def script_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the loop and its draft look at the clock of the script as well."""
    for module in (decoding, draft_worker, loops):
        monkeypatch.setattr(module, "perf_counter", ScriptedWorker.clock)
