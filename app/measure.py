"""`duotail --measure-window`: what the window costs, measured in a real one on the real engine.

Answers are written in turns by the engine alone (the window's thread sleeps), with the window
showing them, and with a window whose thread is never idle. Probes that watch stalls and frames are
off while tokens per second count.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median, quantiles

import psutil
from PySide6.QtCore import QEvent, QEventLoop, QObject, Qt, QTimer
from PySide6.QtWidgets import QApplication

from app.application import Assembly, run
from app.bridge import EngineLike, real_engine
from app.paths import Paths
from app.status import Phase
from engine.commands import DraftChoice, Generate, Load, Mode
from engine.events import AnswerStats, Event, Finished
from engine.request import ChatRequest, Message, Role

QUESTION = "Explain in many paragraphs, with code, how a computer works."
_CONTEXT = 512
"""Ends an answer that goes on and on."""
_TICK_MS = 2
_SLICE_S = 0.004
"""Python without a pause in a busy window's thread, before it looks at its events again."""
_POLL_MS = 5
_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class WindowTimes:
    """One run of the window. Frames and stalls are upper bounds: a probe's tick is part of them."""

    window_s: float
    """From the start of the process to the end of the first paint."""
    ready_s: float
    """From there to the model being loaded, as the window knows it."""
    stall_loading_ms: float
    stall_streaming_ms: float
    frame_p99_ms: float
    frames: int
    answer_tokens: int
    tokens_per_s: float
    """Of the engine alone."""
    window_cost: float
    """Share of the engine's speed that the window takes: median of neighbouring pairs."""
    busy_cost: float
    """The same of a window whose thread never rests."""
    torch_imported: bool


class Probe(QObject):
    """Ticks in the window's thread and notes how long each tick was kept waiting, in ms."""

    def __init__(self, watched: QObject) -> None:
        super().__init__()
        self.gaps: list[float] = []
        self.frames: list[float] = []
        self._painted = False
        self._last = 0.0
        self._timer = QTimer(self, interval=_TICK_MS, timerType=Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._tick)
        watched.installEventFilter(self)

    def start(self) -> None:
        """Begin anew."""
        self.gaps, self.frames, self._painted = [], [], False
        self._last = time.perf_counter()
        self._timer.start()

    def stop(self) -> None:
        """Leave the thread in peace."""
        self._timer.stop()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802, ARG002
        """A frame is an update of the whole window, wherever something changed."""
        if event.type() is QEvent.Type.UpdateRequest:
            self._painted = True
        return False

    def _tick(self) -> None:
        now = time.perf_counter()
        gap, self._last = 1000 * (now - self._last), now
        self.gaps.append(gap)
        if self._painted:
            self.frames.append(gap)
            self._painted = False


@dataclass(slots=True)
class _Tap:
    """The real engine, with an ear at its events: also without the window's thread."""

    engine: EngineLike = field(init=False)
    stats: AnswerStats = field(init=False)
    """Of the answer that ended last."""
    muted: bool = False
    ended: threading.Event = field(default_factory=threading.Event)

    def make(self, emit: Callable[[Event], None]) -> EngineLike:
        """The factory that a window is given."""

        def listen(event: Event) -> None:
            if not self.muted:
                emit(event)
            if isinstance(event, Finished):
                self.stats = event.stats
                self.ended.set()

        self.engine = real_engine(listen)
        return self.engine


class _Measurement:
    """Watches a window from its first paint on."""

    def __init__(self, assembly: Assembly, tap: _Tap, model: Path) -> None:
        self._assembly, self._tap, self._model = assembly, tap, model
        self._probe = Probe(assembly.window)
        self._busy = QTimer(interval=0)
        self._busy.timeout.connect(_burn)

    def take(self, rounds: int) -> WindowTimes:
        """Everything, in the window's thread. Call it once the window is shown.

        Raises:
            TimeoutError: the engine does not get on.
        """
        window_s = _age()
        self._probe.start()
        _until(lambda: self._assembly.bridge.status.phase is Phase.READY)
        ready_s = _age()
        loading = max(self._probe.gaps)
        self._probe.stop()
        self._load_plain()
        self._shown()  # fonts and caches are cold
        gaps, frames = self._watched(rounds)
        speeds = self._speeds(rounds)
        return WindowTimes(
            window_s,
            ready_s,
            loading,
            max(gaps),
            quantiles(frames, n=100, method="inclusive")[98],
            len(frames),
            self._tap.stats.committed,
            *speeds,
            torch_imported="torch" in sys.modules,
        )

    def _load_plain(self) -> None:
        bridge = self._assembly.bridge
        load = Load(self._model, draft=DraftChoice.NONE, mode=Mode.PLAIN, context=_CONTEXT)
        bridge.submit(load)
        _until(lambda: bridge.status.phase is Phase.READY)

    def _watched(self, rounds: int) -> tuple[list[float], list[float]]:
        """Gaps between ticks, and those of them with a frame, while answers stream."""
        gaps: list[float] = []
        frames: list[float] = []
        for _ in range(rounds):
            self._probe.start()
            self._shown()
            self._probe.stop()
            gaps += self._probe.gaps
            frames += self._probe.frames
        return gaps, frames

    def _speeds(self, rounds: int) -> tuple[float, float, float]:
        """Tokens per second of the engine alone; cost of the window, and of a busy one."""
        alone, window, busy = zip(
            *((self._alone(), self._shown(), self._shown_busy()) for _ in range(rounds)),
            strict=True,
        )
        return median(alone), _cost(alone, window), _cost(alone, busy)

    def _shown(self) -> float:
        """An answer in a new conversation, as a user asks for it; its tokens per second."""
        session = self._assembly.session
        session.open(None)
        session.send(QUESTION)
        _until(lambda: session.live is None)
        return self._tap.stats.tokens_per_s or 0.0

    def _shown_busy(self) -> float:
        self._busy.start()
        try:
            return self._shown()
        finally:
            self._busy.stop()

    def _alone(self) -> float:
        """The same answer while the window's thread sleeps."""
        tap = self._tap
        tap.muted = True
        tap.ended.clear()
        tap.engine.submit(Generate(ChatRequest("alone", (Message(Role.USER, QUESTION),))))
        ended = tap.ended.wait(_PATIENCE_S)
        tap.muted = False
        if not ended:
            raise TimeoutError("the engine alone does not finish its answer")
        return self._tap.stats.tokens_per_s or 0.0


def measure_window(rounds: int, model: Path | None = None) -> int:
    """Open a window on empty folders, measure, close it; prints one JSON object. The exit code.

    Answers come from `model`, by default the bundled one; the start is always the user's own.
    """
    tap = _Tap()
    taken: list[WindowTimes] = []

    def opened(assembly: Assembly) -> None:
        from engine.hub.local import bundled_target

        try:
            taken.append(_Measurement(assembly, tap, model or bundled_target()).take(rounds))
        finally:
            QApplication.quit()

    with tempfile.TemporaryDirectory(prefix="duotail-measure-") as folder:
        code = run(Paths(Path(folder), Path(folder)), tap.make, opened)
    if not taken:
        return code or 1
    sys.stdout.write(json.dumps(asdict(taken[0])) + "\n")
    return code


def _cost(alone: Sequence[float], shown: Sequence[float]) -> float:
    return median(1 - mine / other for mine, other in zip(shown, alone, strict=True))


def _age() -> float:
    """Seconds since this process was started."""
    created = psutil.Process().create_time()
    if hasattr(time, "CLOCK_BOOTTIME"):
        # Linux tells the time of booting in whole seconds, and psutil adds to that.
        return time.clock_gettime(time.CLOCK_BOOTTIME) - (created - psutil.boot_time())
    return time.time() - created


def _burn() -> None:
    until = time.perf_counter() + _SLICE_S
    while time.perf_counter() < until:
        pass


def _until(holds: Callable[[], bool]) -> None:
    """Run the window until something holds.

    Raises:
        TimeoutError: it never does.
    """
    loop = QEventLoop()
    deadline = time.monotonic() + _PATIENCE_S
    poll = QTimer(interval=_POLL_MS)
    poll.timeout.connect(lambda: loop.quit() if holds() or time.monotonic() > deadline else None)
    poll.start()
    loop.exec()
    if not holds():
        raise TimeoutError("the window waits for something that does not come")
