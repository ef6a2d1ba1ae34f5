"""The one crossing between the engine's threads and Qt: events in, commands out."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import traceback
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Protocol, TypeVar

from PySide6.QtCore import QObject, QTimer, Signal

from app.engine_link.background import in_own_thread, numpy_whole
from app.engine_link.status import EngineStatus, Phase
from app.signals import TypedSignal
from engine.commands import Command, Generate, Question, QuestionId, Stop
from engine.events import (
    AnswerStats,
    DeviceSample,
    Event,
    Failed,
    Finished,
    FinishReason,
    Reply,
    RoundFinished,
    TextDelta,
)
from engine.language import tr
from engine.machine.cores import available_cores

_log = logging.getLogger(__name__)

_FRAME_MS = 33
_STREAM_ON_FEW_CORES_MS = 125
"""Between two frames of a text that keeps coming, where every core writes it: each frame takes some
milliseconds from that."""
_FEW_CORES = 4
_PAUSE_S = 0.25
"""Without text for so long, nothing keeps coming any more."""
_IDLE_MS = 150
_IDLE_AFTER_S = 1.0
_DRAIN_BUDGET_S = 0.008
"""Longest stretch of event handling per frame; what is left waits for the next one."""
_SWITCH_S = 0.0005
"""Time that a busy window may keep the interpreter from the engine, which needs it once a token.

Python's own 5 ms would be a fifth of the time that a forward of a small model takes. The other way
round, the window waits as long for its turn while the engine is imported and a model is read.
"""

_NICENESS = 5
"""On a core that both want, the window's thread gets three times what the engine's gets."""

E = TypeVar("E")


class EngineLike(Protocol):
    """The part of `engine.service.engine.Engine` that the bridge needs."""

    def submit(self, command: Command) -> None:
        """Ask for something; never blocks."""

    def close(self, timeout: float = 5.0) -> None:
        """Stop whatever runs and end the engine's threads."""


@dataclass(frozen=True, slots=True)
class _Sent:
    """Among the events: the command the starting thread has sent; None: there was none to send."""

    command: Command | None


@dataclass(frozen=True, slots=True)
class _NotStarted:
    """Among the events: there is no engine, and no answer to these requests."""

    failed: Failed
    requests: tuple[str, ...] = ()


EngineFactory = Callable[[Callable[[Event], None]], EngineLike]


def real_engine(emit: Callable[[Event], None]) -> EngineLike:
    """The engine; imported only now, because what it imports takes a while."""
    from engine.service.engine import Engine

    return Engine(emit)


def give_way() -> None:
    """Let the window's thread go before this one and all that it starts, which use every core.

    Only Linux has to be told: the others put the window in front first. There each thread has a
    priority of its own.
    """
    if sys.platform == "linux":
        os.nice(_NICENESS)


class EngineBridge(QObject):
    """Owns the engine, hands its events to Qt's thread once a frame, and keeps its status.

    Callbacks of `subscribe` and the signals run in the thread the bridge was made in. Text that
    came within one frame is handed out in one piece.
    """

    frame = TypedSignal[tuple[Event, ...]]()
    """All events of a frame, in order, as `joined` leaves them: a tuple."""
    status_changed = TypedSignal[EngineStatus]()
    """The new `EngineStatus`."""
    plan_changed = TypedSignal[EngineStatus]()
    """Another model runs, or the same one in another way, or none: the status before."""
    started = TypedSignal[Command]()
    """The command of the start has been sent."""
    imported = Signal()
    """The engine is there, or cannot be: importing it keeps nobody waiting any more."""

    def __init__(self, factory: EngineFactory = real_engine, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._factory = factory
        self._engine: EngineLike | None = None
        self._waiting: list[Command] = []
        self._gate = threading.Lock()
        self._events: deque[Event | _Sent | _NotStarted] = deque()
        self._due: deque[Event | _Sent | _NotStarted] = deque()
        self._subscribers: dict[type[Any], list[Callable[[Any], None]]] = defaultdict(list)
        self._asked: dict[QuestionId, Callable[[Any], None]] = {}
        self._newest: dict[type[Any], list[Callable[[Any], None]]] = defaultdict(list)
        self._first: Callable[[], Command | None] = lambda: None
        self._closed = False
        self._last_activity = time.perf_counter()
        self._timer = QTimer(self, interval=_FRAME_MS)
        self._timer.timeout.connect(self.drain)
        self._stream_ms = _STREAM_ON_FEW_CORES_MS if available_cores() <= _FEW_CORES else _FRAME_MS
        self._texts, self._text_at = 0, 0.0
        self.status = EngineStatus()

    def start(self, first: Callable[[], Command | None] | None = None) -> None:
        """Start the engine in a thread of its own; commands sent meanwhile wait for it.

        `first` makes the command that goes before them, if any; it runs in that thread. Without,
        the one of the last start does.
        """
        self._first = first or self._first
        self._closed = False
        self._set_status(EngineStatus(wanted=self.status.wanted))
        self._timer.start()
        in_own_thread(partial(self._start_engine, self._first), "engine-start")

    def submit(self, command: Command) -> None:
        """Send a command; never blocks. Whatever is asked for ends what is written aside."""
        aside = self.status.aside
        if aside is not None and not isinstance(command, Question | Stop):
            self.submit(Stop(aside))
        with self._gate:
            engine = self._engine
            if engine is None:
                self._waiting.append(command)
        if engine is not None:
            engine.submit(command)
        self._wake()
        self._note(command)

    def ask(self, question: Question, then: Callable[[Any], None]) -> None:
        """Send a question, whose answer `then` gets; an `Asker` gives it an id."""
        self._asked[question.id] = then
        self.submit(question)

    def forget(self, question: QuestionId) -> None:
        """Give the answer to a question to nobody."""
        self._asked.pop(question, None)

    def subscribe(self, kind: type[E], callback: Callable[[E], None]) -> None:
        """Call `callback` for every event of type `kind`."""
        self._subscribers[kind].append(callback)

    def subscribe_newest(self, kind: type[E], callback: Callable[[E], None]) -> None:
        """Call `callback` once a frame, with the newest event of type `kind`."""
        self._newest[kind].append(callback)

    def call_model(self, name: str) -> None:
        """Show the loaded model under another name than that of its files."""
        if self.status.plan is not None:
            self._set_status(replace(self.status, model_name=name))

    def close(self, timeout: float = 5.0) -> bool:
        """End the engine, then hand out the events it still had to tell.

        Returns whether it ended in time: one that hangs does not.
        """
        began = time.monotonic()
        self._timer.stop()
        with self._gate:
            self._closed = True
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.close(timeout)
        self._due.extend(joined(self._arrived()))
        while self._due:
            self._dispatch(self._due.popleft())
        return time.monotonic() - began < timeout

    def drain(self) -> bool:
        """Hand out what has come in since the last frame; whether some of it has to wait."""
        started = time.perf_counter()
        self._due.extend(joined(self._arrived()))
        handed: list[Event] = []
        while self._due:
            event = self._due.popleft()
            if not isinstance(event, DeviceSample):
                self._last_activity = started
            self._dispatch(event)
            if not isinstance(event, _Sent | _NotStarted):
                handed.append(event)
            if time.perf_counter() - started > _DRAIN_BUDGET_S:
                break
        if handed:
            self._tell_newest(handed)
            self._call(self.frame.emit, tuple(handed))
        self._pace(started, text=any(isinstance(event, TextDelta) for event in handed))
        return bool(self._due)

    def _pace(self, now: float, *, text: bool) -> None:
        """Set when the next frame is due; neither the first words nor what is late wait."""
        idle = now - self._last_activity > _IDLE_AFTER_S and not self.status.busy
        if text:
            self._texts += 1
        elif now - self._text_at > _PAUSE_S:
            self._texts = 0
        self._text_at = now if text else self._text_at
        streams = self._texts > 1 and not self._due
        interval = _IDLE_MS if idle else self._stream_ms if streams else _FRAME_MS
        if self._timer.interval() != interval:
            self._timer.setInterval(interval)

    def _tell_newest(self, handed: list[Event]) -> None:
        for kind, callbacks in self._newest.items():
            newest = next((event for event in reversed(handed) if isinstance(event, kind)), None)
            for callback in callbacks if newest is not None else ():
                self._call(callback, newest)

    def _arrived(self) -> Iterator[Event | _Sent | _NotStarted]:
        """Yield what has arrived by now; the engine goes on meanwhile."""
        for _ in range(len(self._events)):
            yield self._events.popleft()

    def _note(self, command: Command) -> None:
        """Follow a command that was sent."""
        self._set_status(self.status.told(command))

    def _start_engine(self, first: Callable[[], Command | None]) -> None:
        try:
            sys.setswitchinterval(_SWITCH_S)
            give_way()
            numpy_whole()
            engine = self._factory(self._events.append)
            command = first()
        except Exception as error:  # noqa: BLE001 - whatever it is, the user must hear of it
            _log.exception("the engine did not start")
            with self._gate:
                stranded = [each for each in self._waiting if isinstance(each, Generate)]
                self._waiting = [each for each in self._waiting if each not in stranded]
            ids = tuple(each.request.id for each in stranded)
            self._events.append(_NotStarted(_start_failure(error), ids))
            return
        with self._gate:
            if self._closed:
                self._waiting.clear()
            else:
                self._engine = engine
            self._events.append(_Sent(command))
            if command is not None:
                engine.submit(command)
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                engine.submit(each)
        if self._closed:
            engine.close()

    def _dispatch(self, event: Event | _Sent | _NotStarted) -> None:
        if isinstance(event, _Sent | _NotStarted):
            self.imported.emit()
        if isinstance(event, _Sent):
            if event.command is not None:
                self._note(event.command)
                self.started.emit(event.command)
            elif self.status.phase is Phase.PREPARING:
                self._set_status(self.status.settled())
            return
        if isinstance(event, _NotStarted):
            self._set_status(replace(self.status, phase=Phase.BROKEN, request_id=None))
            self._events.extend(chain.from_iterable(map(_unanswered, event.requests)))
            event = event.failed
        elif isinstance(event, Reply):
            if (then := self._asked.pop(event.id, None)) is not None:
                self._call(then, event)
        elif not isinstance(event, RoundFinished):  # thousands a second, and no news to it
            self._set_status(self.status.after(event))
        for callback in self._subscribers.get(type(event), ()):
            self._call(callback, event)

    @staticmethod
    def _call(callback: Callable[[E], object], argument: E) -> None:
        try:
            callback(argument)
        except Exception:  # noqa: BLE001 - one bad reader must not silence the others
            sys.excepthook(*sys.exc_info())

    def _set_status(self, status: EngineStatus) -> None:
        if status is not self.status and status != self.status:
            before, self.status = self.status, status
            self.status_changed.emit(status)
            if (status.plan, status.loaded) != (before.plan, before.loaded):
                self.plan_changed.emit(before)

    def _wake(self) -> None:
        self._last_activity = time.perf_counter()
        self._timer.setInterval(_FRAME_MS)


def joined(events: Iterable[Event | _Sent | _NotStarted]) -> Iterator[Event | _Sent | _NotStarted]:
    """Yield the events with the pieces of an answer's text put together.

    A piece is put to the first one of its stretch, so rounds come after the text they wrote. What
    the machine does parts no text: that is told first.
    """
    text: list[TextDelta] = []
    rounds: list[RoundFinished] = []
    for event in events:
        if isinstance(event, DeviceSample):
            yield event
            continue
        same = not text or getattr(event, "request_id", None) == text[0].request_id
        if same and isinstance(event, TextDelta):
            text.append(event)
        elif same and isinstance(event, RoundFinished):
            rounds.append(event)
        else:
            yield from _stretch(text, rounds)
            text, rounds = [], []
            if isinstance(event, TextDelta):
                text.append(event)
            else:
                yield event
    yield from _stretch(text, rounds)


def _stretch(text: list[TextDelta], rounds: list[RoundFinished]) -> Iterator[Event]:
    if len(text) > 1:
        spans = tuple(chain.from_iterable(piece.spans for piece in text))
        whole = "".join(piece.text for piece in text)
        yield TextDelta(text[-1].at, text[0].request_id, whole, spans)
    else:
        yield from text
    yield from rounds


def _start_failure(error: BaseException) -> Failed:
    details = "".join(traceback.format_exception(error))
    return Failed(
        time.perf_counter(),
        None,
        tr("The engine could not be started."),
        tr("Reinstall Duotail; if that does not help, report it with the details."),
        details,
        bug=True,
    )


def _unanswered(request_id: str) -> tuple[Event, Event]:
    """Return what ends a request that no engine has taken."""
    now = time.perf_counter()
    cause, remedy = tr("The engine could not be started."), tr("Try again once it runs.")
    nothing = AnswerStats(0, 0, 0, 0, 0, 0, 0, (), (), None, None, None, 0.0)
    return (
        Failed(now, request_id, cause, remedy, ""),
        Finished(now, request_id, FinishReason.ERROR, "", (), nothing),
    )
