"""Waits of events for the window's thread, and the window's processor time."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

import psutil
from PySide6.QtCore import QEvent, QObject, Qt, QTimer

TICK_MS = 2


@dataclass(frozen=True, slots=True)
class Waits:
    """Waiting times while something went on, in milliseconds.

    A timer ticks every 2 ms in the window's thread. The time between two ticks is what the thread
    was kept from its loop, for whatever reason: work, the interpreter's lock held by the engine, a
    processor given to others. The tick's own 2 ms are part of it, so all of these are upper bounds.
    A *frame* is such a stretch in which the window was painted, with everything that led to it,
    while text was coming in. Stalls count at all times, also while a question is being sent.
    """

    frames: int
    frame_p50_ms: float
    frame_p99_ms: float
    stall_ms: float
    """The longest stretch of all."""


class Probe(QObject):
    """Ticks in the window's thread and notes how long each tick was kept waiting, in ms."""

    def __init__(self, watched: QObject) -> None:
        super().__init__()
        self.gaps: list[float] = []
        self.frames: list[float] = []
        self.counts_frames = True
        self._painted = False
        self._last = 0.0
        self._timer = QTimer(self, interval=TICK_MS, timerType=Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._tick)
        watched.installEventFilter(self)

    def start(self) -> None:
        """Go on watching; what was seen before stays."""
        self._painted = False
        self._last = time.perf_counter()
        self._timer.start()

    def stop(self) -> None:
        """Leave the thread in peace."""
        self._timer.stop()

    def take(self) -> Waits:
        """Return what was seen since the last `take`; the probe is stopped."""
        self.stop()
        gaps, frames, self.gaps, self.frames = self.gaps, self.frames, [], []
        # Two are needed for quantiles.
        shares = quantiles(frames if len(frames) > 1 else [0.0, 0.0], n=100, method="inclusive")
        return Waits(len(frames), shares[49], shares[98], max(gaps, default=0.0))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802, ARG002
        """Count a frame for each update of the whole window, wherever something changed."""
        if event.type() is QEvent.Type.UpdateRequest:
            self._painted = True
        return False

    def _tick(self) -> None:
        now = time.perf_counter()
        gap, self._last = 1000 * (now - self._last), now
        self.gaps.append(gap)
        if self._painted:
            self._painted = False
            if self.counts_frames:
                self.frames.append(gap)


@dataclass(frozen=True, slots=True)
class Spent:
    """Processor seconds: of the window's thread, and of the X server that shows its pictures."""

    window: float
    screen: float | None

    def since(self, before: Spent) -> Spent:
        """Return the time spent between two readings."""
        both = self.screen is not None and before.screen is not None
        screen = (self.screen or 0.0) - (before.screen or 0.0) if both else None
        return Spent(self.window - before.window, screen)


class Clocks:
    """Reads processor times. Call it in the window's thread."""

    def __init__(self) -> None:
        self._screen = _display_server()

    def read(self) -> Spent:
        """Seconds since the threads began; the X server counts in hundredths."""
        screen = None
        if self._screen is not None:
            times = self._screen.cpu_times()
            screen = times.user + times.system
        return Spent(time.thread_time(), screen)


def process_age() -> float:
    """Seconds since this process was started."""
    created = psutil.Process().create_time()
    if hasattr(time, "CLOCK_BOOTTIME"):
        # Linux tells the time of booting in whole seconds, and psutil adds to that.
        return time.clock_gettime(time.CLOCK_BOOTTIME) - (created - psutil.boot_time())
    return time.time() - created


def _display_server() -> psutil.Process | None:
    """The X server on this machine that DISPLAY names, where it can be told."""
    number = re.fullmatch(r":(\d+)(\.\d+)?", os.environ.get("DISPLAY", ""))
    if number is None or os.environ.get("QT_QPA_PLATFORM", "xcb") != "xcb":
        return None
    try:
        owner = int(Path(f"/tmp/.X{number[1]}-lock").read_text())  # noqa: S108 - X's own place
        server = psutil.Process(owner)
        server.cpu_times()
    except (OSError, ValueError, psutil.Error):
        return None
    return server
