"""An engine and everything it has said, with means to hold it in a state without sleeping."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any, TypeVar

from engine.commands import Command, Generate, Load
from engine.errors import Cancelled
from engine.events import Event, Finished, MemoryHeld, PlanReady, TextDelta, Unloaded
from engine.loading.devices import DeviceManager
from engine.machine.facts import CPU
from engine.machine.speeds import DeviceSpeeds, Speeds
from engine.request import ChatRequest, Message, Role
from engine.service.engine import Engine

PATIENCE = 240.0
"""Seconds after which a test fails instead of waiting on."""

E = TypeVar("E")


def user(text: str) -> Message:
    return Message(Role.USER, text)


def answer_of(finished: Finished) -> Message:
    return Message(Role.ASSISTANT, finished.text, finished.token_ids)


def anything(_event: Any) -> bool:
    return True


class Hold:
    """Blocks the engine's thread inside its listener, at the first event that fits."""

    def __init__(self, kind: type[Any], where: Callable[[Any], bool]) -> None:
        self._kind, self._where = kind, where
        self._reached, self._opened = threading.Event(), threading.Event()

    def meet(self, event: Event) -> None:
        if isinstance(event, self._kind) and not self._reached.is_set() and self._where(event):
            self._reached.set()
            assert self._opened.wait(PATIENCE), "the engine was held and never released"

    def reached(self) -> None:
        assert self._reached.wait(PATIENCE), f"no {self._kind.__name__} came"

    def release(self) -> None:
        self._opened.set()


SPEEDS = Speeds({CPU: DeviceSpeeds(CPU, 1e10, {})}, measured=True)


class Unhurried(DeviceManager):
    """Its calibration measures nothing: two steps, between which it looks up."""

    def measure(
        self, progress: Callable[[str, float], None], cancelled: Callable[[], bool]
    ) -> Speeds:
        for step in (1, 2):
            progress("Measuring", step / 2)
            if cancelled():
                raise Cancelled
        return SPEEDS


class Session:
    """Submits commands and records events; close it at the end.

    What memory is held comes behind what tests wait for: it is in a list of its own.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.held: list[MemoryHeld] = []
        self._news = threading.Condition()
        self._holds: list[Hold] = []
        self.engine = Engine(self._hear, sample_devices=False, manager=Unhurried)

    def _hear(self, event: Event) -> None:
        with self._news:
            if isinstance(event, MemoryHeld):
                self.held.append(event)
            else:
                self.events.append(event)
            self._news.notify_all()
        for hold in list(self._holds):
            hold.meet(event)

    def holds(self, count: int) -> MemoryHeld:
        """The `count`-th word of what is held, the first being 1."""
        with self._news:
            assert self._news.wait_for(lambda: len(self.held) >= count, PATIENCE), self.events
            return self.held[count - 1]

    @contextmanager
    def holding(self, kind: type[Any], where: Callable[[Any], bool] = anything) -> Iterator[Hold]:
        """Hold the engine at an event; released at the end of the block at the latest."""
        hold = Hold(kind, where)
        self._holds.append(hold)
        try:
            yield hold
        finally:
            hold.release()
            self._holds.remove(hold)

    def submit(self, *commands: Command) -> None:
        for command in commands:
            self.engine.submit(command)

    def wait(
        self,
        kind: type[E],
        where: Callable[[E], bool] = anything,
        *,
        after: int = 0,
        count: int = 1,
    ) -> E:
        """The `count`-th fitting event since the `after`-th event of all."""

        def fitting() -> list[E]:
            return [e for e in self.events[after:] if isinstance(e, kind) and where(e)]

        with self._news:
            assert self._news.wait_for(lambda: len(fitting()) >= count, PATIENCE), self.events
            return fitting()[count - 1]

    def of(self, kind: type[E], request_id: str | None = None) -> list[E]:
        return [
            event
            for event in self.events
            if isinstance(event, kind) and request_id in (None, getattr(event, "request_id", None))
        ]

    def load(self, model: Path, **wishes: Any) -> PlanReady:
        """Load and wait; fails when the model does not come."""
        after, command = len(self.events), Load(model, **wishes)
        self.submit(command)
        settled = self.wait(
            PlanReady | Unloaded,  # type: ignore[arg-type]
            lambda event: isinstance(event, Unloaded) or event.load == command,
            after=after,
        )
        assert isinstance(settled, PlanReady), self.events[after:]
        return settled

    def ask(self, *messages: Message | str, id: str = "a", **wishes: Any) -> Finished:  # noqa: A002
        """Generate and wait."""
        after = len(self.events)
        self.submit(generate(*messages, id=id, **wishes))
        return self.wait(Finished, lambda event: event.request_id == id, after=after)

    def write_until(self, *messages: Message | str, id: str = "a", **wishes: Any) -> Hold:  # noqa: A002
        """Start an answer and hold the engine at its first text; release the hold later."""
        hold = Hold(TextDelta, lambda event: event.request_id == id)
        self._holds.append(hold)
        self.submit(generate(*messages, id=id, **wishes))
        hold.reached()
        return hold

    def at_rest(self) -> None:
        """Wait until the engine has done all it was told to, and holds nothing of it any more."""
        until_at_rest(self.engine)

    def close(self) -> None:
        for hold in self._holds:
            hold.release()
        self.engine.close(PATIENCE)


def until_at_rest(engine: Engine) -> None:
    """See `Session.at_rest`."""

    def rests() -> bool:
        with engine._wake:
            return engine._current is None and not engine._agenda

    end = monotonic() + PATIENCE
    while not rests():
        assert monotonic() < end, engine._current
        sleep(0.01)


def generate(*messages: Message | str, id: str = "a", **wishes: Any) -> Generate:  # noqa: A002
    turns = tuple(user(turn) if isinstance(turn, str) else turn for turn in messages)
    return Generate(ChatRequest(id, turns, **wishes))
