"""Watches a window from its first paint on, and has it do what people do."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from PySide6.QtCore import QEventLoop, QTimer
from PySide6.QtGui import QGuiApplication

from app.application import Assembly
from app.engine_link.status import Phase
from app.shell.page_names import PageName
from app.showcase.measure.archive import fill, queries, write_conversation
from app.showcase.measure.engine import QUESTION, Tap
from app.showcase.measure.probe import Clocks, Probe, Spent, Waits, process_age
from app.showcase.measure.report import (
    Cost,
    MeasureSetup,
    Opening,
    Searching,
    Start,
    Streaming,
    UiReport,
)
from engine.commands import DraftChoice, Load, Mode
from engine.events import Finished, TextDelta

CONTEXT = 1024
_INDEX_TRIES = 6
"""Tries to build the index, of some 100 s each."""
_POLL_MS = 5
_PATIENCE_S = 120.0
_QUIET_S = 1.0


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """Options of a measurement."""

    model: Path
    """A folder, or a shape's `shape_path`; loaded once the start has been measured."""
    theme: str
    threads: int | None = None
    paces: tuple[float | None, ...] = (200.0, None)
    seconds: int = 6
    """Seconds to watch each pace: one answer of a small model is over at once."""
    messages: int = 10_000
    megabytes: int = 0
    pairs: int = 7
    panel: bool = True
    page: PageName | None = None
    """The page shown in the place of the chat while answers are written."""


class Measurement:
    """One run of the window, in the window's thread.

    Args:
        assembly: the window and its services.
        tap: its engine.
        on_screen: when the window had been painted, in seconds of `time.perf_counter`.
    """

    def __init__(self, assembly: Assembly, tap: Tap, on_screen: float) -> None:
        self._assembly, self._tap = assembly, tap
        self._window_s = process_age() - (time.perf_counter() - on_screen)
        self._probe = Probe(assembly.window)
        self._page: PageName | None = None
        self._clocks = Clocks()
        self._answering = QEventLoop()
        assembly.bridge.subscribe(TextDelta, lambda _: self._text_comes(comes=True))
        assembly.bridge.subscribe(Finished, lambda _: self._text_comes(comes=False))
        assembly.session.answer_finished.connect(lambda _: self._answering.exit(0))
        self._patience = QTimer(singleShot=True, interval=int(1000 * _PATIENCE_S))
        self._patience.timeout.connect(lambda: self._answering.exit(1))

    def take(self, wishes: MeasureOptions) -> UiReport:
        """Take all measurements that are wished for.

        Raises:
            TimeoutError: the engine does not get on.
        """
        start = self._start()
        opening = self._open(wishes.messages) if wishes.messages else None
        searching = self._search(wishes.megabytes) if wishes.megabytes else None
        self._assembly.window.performance.setVisible(wishes.panel)
        streaming: tuple[Streaming, ...] = ()
        cost = None
        if wishes.paces or wishes.pairs:
            self._load_plain(wishes.model)
            self._page = wishes.page
            self._shown()  # fonts and caches are cold
            streaming = tuple(self._stream(pace, wishes.seconds) for pace in wishes.paces)
            cost = self._cost(wishes.pairs) if wishes.pairs else None
        return UiReport(self._setting(wishes), start, streaming, opening, searching, cost)

    def _text_comes(self, *, comes: bool) -> None:
        self._probe.counts_frames = comes

    def _setting(self, wishes: MeasureOptions) -> MeasureSetup:
        window = self._assembly.window
        return MeasureSetup(
            self._assembly.bridge.status.model_name,
            wishes.threads,
            _cores(),
            QGuiApplication.platformName(),
            wishes.theme,
            window.width(),
            window.height(),
            window.devicePixelRatioF(),
            window.performance.isVisible() and wishes.page is None,
            "" if wishes.page is None else wishes.page.name.lower(),
        )

    def _start(self) -> Start:
        self._probe.start()
        self._until_ready()
        ready_s = process_age()
        waits = self._probe.take()
        return Start(self._window_s, ready_s, waits.stall_ms, "torch" in sys.modules)

    def _load_plain(self, model: Path) -> None:
        """Plain decoding: the same work at every token, and the most events for each."""
        load = Load(model, draft=DraftChoice.NONE, mode=Mode.PLAIN, context=CONTEXT)
        self._assembly.bridge.submit(load)
        self._until_ready()

    def _until_ready(self) -> None:
        until(lambda: self._assembly.bridge.status.phase is Phase.READY)

    def _stream(self, pace: float | None, at_least: int) -> Streaming:
        self._tap.pace = pace
        before, began = self._clocks.read(), time.perf_counter()
        tokens, answering = 0, 0.0
        while time.perf_counter() - began < at_least:
            self._text_comes(comes=False)
            self._probe.start()
            asked = time.perf_counter()
            self._shown()
            answering += time.perf_counter() - asked
            self._probe.stop()
            tokens += self._tap.stats.committed if self._tap.stats else 0
        seconds = time.perf_counter() - began
        spent = self._clocks.read().since(before)
        self._tap.pace = None
        return Streaming(
            pace,
            tokens / answering,
            self._probe.take(),
            spent.window / seconds,
            None if spent.screen is None else spent.screen / seconds,
        )

    def _cost(self, pairs: int) -> Cost:
        alone: list[float] = []
        shown: list[float] = []
        window, screen, seconds = 0.0, 0.0, 0.0
        measurable = self._clocks.read().screen is not None
        for number in range(pairs):
            if number % 2:
                self._tap.answer_alone()
                alone.append(self._tap.tokens_per_s)
            before, began = self._clocks.read(), time.perf_counter()
            self._shown()
            shown.append(self._tap.tokens_per_s)
            spent = self._clocks.read().since(before)
            seconds += time.perf_counter() - began
            window, screen = window + spent.window, screen + (spent.screen or 0.0)
            if not number % 2:
                self._tap.answer_alone()
                alone.append(self._tap.tokens_per_s)
        tokens = self._tap.stats.committed if self._tap.stats else 0
        total = Spent(window, screen if measurable else None)
        return Cost.of(tokens, alone, shown, total, seconds)

    def _shown(self) -> None:
        """An answer in a new conversation, as a user asks for it."""
        session = self._assembly.session
        session.open(None)
        session.send(QUESTION)
        if self._page is not None:
            self._assembly.window.pages.open(self._page)
        # No timer looks whether it is over: it would be part of what is measured.
        self._patience.start()
        if self._answering.exec():
            raise TimeoutError("the answer does not come to its end")

    def _open(self, messages: int) -> Opening:
        """A long conversation, until the window has painted its end."""
        assembly = self._assembly
        conversation = write_conversation(assembly.store, messages)
        assembly.session.conversations.refresh()
        _quiet()
        self._text_comes(comes=True)  # any frame that paints it
        self._probe.start()
        began = time.perf_counter()
        assembly.session.open(conversation)
        until(lambda: bool(self._probe.frames), every_ms=0)
        painted = time.perf_counter() - began
        _quiet()
        waits: Waits = self._probe.take()
        assembly.session.open(None)
        return Opening(messages, 1000 * painted, waits.stall_ms)

    def _search(self, megabytes: int) -> Searching:
        """Searches of the kinds that people do."""
        store = self._assembly.store
        fill(store, megabytes * 1_000_000)
        if not any(store.wait_until_indexed() for _ in range(_INDEX_TRIES)):
            raise TimeoutError("the search index does not get on")
        times = []
        for query in queries():
            began = time.perf_counter()
            store.search(query)
            times.append(1000 * (time.perf_counter() - began))
        return Searching(megabytes, median(times), max(times))


def _cores() -> int:
    from engine.machine.cores import available_cores

    return available_cores()


def _quiet(seconds: float = _QUIET_S) -> None:
    """Let the window do what it still has to do."""
    loop = QEventLoop()
    QTimer.singleShot(int(1000 * seconds), loop.quit)
    loop.exec()


def until(holds: Callable[[], bool], every_ms: int = _POLL_MS) -> None:
    """Run the window until something holds.

    Raises:
        TimeoutError: it never does.
    """
    loop = QEventLoop()
    deadline = time.monotonic() + _PATIENCE_S
    poll = QTimer(interval=every_ms)
    poll.timeout.connect(lambda: loop.quit() if holds() or time.monotonic() > deadline else None)
    poll.start()
    loop.exec()
    if not holds():
        raise TimeoutError("the window waits for something that does not come")
