"""A window on an engine that says exactly what a scene tells it to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from time import perf_counter

from PySide6.QtCore import QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.application import Assembly
from app.data_folder.paths import Paths
from app.engine_link.status import is_aside
from app.models.hub import Hub, Listener
from app.showcase import lanes
from app.showcase.engine import ScriptedEngine
from app.showcase.hub import HubScript, ScriptedHub
from app.showcase.script import (
    MACHINE,
    MODEL_NAME,
    PLAN,
    Pace,
    both_busy,
    rounds,
    sample,
    stats,
    words,
)
from app.theme.theme import Theme
from engine.commands import Command, Generate, Load, Mode
from engine.events import (
    AnswerStats,
    Event,
    Finished,
    FinishReason,
    MachineFound,
    PlanReady,
    PrefillProgress,
    RoundFinished,
)
from engine.request import ChatRequest

_SAMPLE_EVERY = 4
"""Rounds between two samples of the machine."""
_FIRST_TOKEN_S = 0.118
_FRAMES = 4
_PATIENCE_S = 10.0
_PUT_OFF_MS = 1000
"""Timers with more time left wait for the user: notices that go, questions that come."""


class Stage(ScriptedEngine):
    """The window, and the engine below it."""

    def __init__(self, theme: Theme, folder: Path) -> None:
        super().__init__(lambda _: None)
        self.theme = theme
        self.request_id = ""
        self.tokens = 0
        self.mode = Mode.CPU
        self.hub_script = HubScript()
        self.scripted_hub = ScriptedHub(self.hub_script, lambda _message: None)
        self.assembly = Assembly(Paths(folder, folder), theme, self._make, hub=self._make_hub)
        self.window = self.assembly.window

    def _make(self, emit: Callable[[Event], None]) -> Stage:
        self._emit = emit
        return self

    def _make_hub(self, listener: Listener) -> Hub:
        self.scripted_hub = ScriptedHub(self.hub_script, listener)
        return self.scripted_hub.hub

    def count(self, request: ChatRequest) -> int:
        """Return a token for four characters."""
        self.tokens = sum(len(message.text) for message in request.messages) // 4
        return self.tokens

    def perform(self, command: Command) -> None:
        """Note which answer is asked for; the scene writes it. Nothing is measured aside."""
        if not isinstance(command, Generate):
            return
        asked = command.request.id
        if not is_aside(asked):
            self.request_id = asked
        else:
            none = stats(0)
            self._emit(Finished(perf_counter(), asked, FinishReason.STOPPED, "", (), none, 0, ""))

    def close(self, timeout: float = 5.0) -> None:
        """Do nothing: nothing runs."""

    def tell(self, *events: Event) -> None:
        """Let the engine say something, and let the window take it in."""
        settle()
        for event in events:
            self._emit(event)
        while self.assembly.bridge.drain():
            pass
        settle()

    def ready(self) -> None:
        """Tell that a model is loaded and the machine is known."""
        found = MachineFound(perf_counter(), MACHINE)
        model = Path("model")
        plan = PlanReady(perf_counter(), model, MODEL_NAME, PLAN, Load(model))
        self.tell(sample(0.0, 3.0), found, plan)

    def stream(self, text: str, told: str = "", pace: Pace | None = None) -> None:
        """Write `text` round by round, behind what was `told` before."""
        pace = pace or Pace()
        started = perf_counter() - pace.seconds * (len(words(text)) / pace.tokens + 1)
        if not told:
            self.assembly.session.asked.emit(started - _FIRST_TOKEN_S)
            progress = PrefillProgress(started, self.request_id, 31, 31, 0)
            self.tell(progress)
        offset = len(told.encode("utf-16-le")) // 2
        clock = count(started, pace.seconds).__next__
        for index, (delta, done) in enumerate(rounds(self.request_id, text, clock, pace, offset)):
            self.tell(delta, done)
            if index % _SAMPLE_EVERY == 0:
                self.tell(sample(done.at, 88.0))

    def stream_side_by_side(self, text: str) -> tuple[RoundFinished, ...]:
        """Write `text` with two lanes at work; the rounds it took."""
        took = [done for _, done in lanes.rounds(self.request_id, text, 0.0)]
        started = perf_counter() - took[-1].at
        self.assembly.session.asked.emit(started - _FIRST_TOKEN_S)
        self.tell(PrefillProgress(started, self.request_id, 31, 31, 0))
        for delta, done in lanes.rounds(self.request_id, text, started):
            self.tell(delta, done)
            if done.index % _SAMPLE_EVERY == 0:
                self.tell(both_busy(done.at))
        return tuple(took)

    def finish(
        self,
        text: str,
        reason: FinishReason = FinishReason.STOP,
        account: AnswerStats | None = None,
    ) -> None:
        """End the answer; `account` in the place of invented statistics."""
        tokens = len(words(text))
        ids = tuple(range(tokens))
        done = account or replace(stats(tokens), mode=self.mode)
        now = perf_counter()
        self.tell(Finished(now, self.request_id, reason, text, ids, done, 0, PLAN.signature))


def settle() -> None:
    """Let everything that is due happen."""
    for _ in range(4):
        QApplication.processEvents()
    QApplication.sendPostedEvents()


def wait_for(holds: Callable[[], bool]) -> None:
    """Let threads beside the window do what they do, until something holds or takes too long."""
    end = perf_counter() + _PATIENCE_S
    while not holds() and perf_counter() < end:
        QTest.qWait(2)
        settle()


def catch_up() -> None:
    """Let happen now what is put off to one of the next frames: rendering, graphs."""
    for _ in range(_FRAMES):
        for window in QApplication.topLevelWidgets():
            for timer in window.findChildren(QTimer):
                if timer.isSingleShot() and 0 < timer.remainingTime() <= _PUT_OFF_MS:
                    timer.start(0)
        settle()
