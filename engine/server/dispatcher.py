"""The server's door to the engine, which a window may be using as well.

    dispatcher = Dispatcher()
    engine = Engine(lambda event: dispatcher.take(event) or show(event))
    dispatcher.open(engine.submit)

Events of the server's own answers go to whoever waits for them, and to nobody else; everything else
is the window's, and the dispatcher only takes note of which model is loaded.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from engine.commands import Command, Count, QuestionId
from engine.events import Counted, Event, PlanReady, PlanSummary, Unloaded
from engine.hub.shelf.kept_model import names_of
from engine.request import ChatRequest
from engine.server.api_error import no_model

ID_PREFIX = "server-"
"""First characters of the ids of all answers that a server requests."""
_COUNT_S = 60.0
"""Seconds after which a count is given up: the model was unloaded."""
_askers = itertools.count(-1, -1)
"""Askers of counts; those of a window are not negative."""
OTHERS = ""
"""In place of a request's id: all events that are not the server's own."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """The loaded model, as clients see it: a name and never a path."""

    name: str
    plan: PlanSummary
    since: int
    """Unix time at which it was loaded."""
    names: frozenset[str] = frozenset()
    """All that it may be called, in lower case."""


class Dispatcher:
    """Passes commands on to an engine and sorts its events."""

    def __init__(self) -> None:
        self.model: ServedModel | None = None
        """The loaded model; None while there is none."""
        self._submit: Callable[[Command], None] | None = None
        self._counts: dict[int, Callable[[Counted], None]] = {}
        self._listeners: dict[str, Callable[[Event], None]] = {}

    def open(self, submit: Callable[[Command], None]) -> None:
        """Take commands from now on, for this engine."""
        self._submit = submit

    def submit(self, command: Command) -> None:
        """Hand a command to the engine; never blocks."""
        if self._submit is None:
            raise RuntimeError("no engine")
        self._submit(command)

    def listen(self, request_id: str, listener: Callable[[Event], None]) -> None:
        """Have the events of a request told, in the engine's threads."""
        self._listeners[request_id] = listener

    def leave(self, request_id: str) -> None:
        """Have the events of a request told no more."""
        self._listeners.pop(request_id, None)

    async def counted(self, request: ChatRequest) -> Counted:
        """Have the tokens of a request counted, and told.

        Raises:
            ApiError: there is no model to count with.
        """
        import asyncio  # a window's start has no use for it

        id_ = QuestionId(next(_askers))
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Counted] = loop.create_future()

        def take(event: Counted) -> None:
            if not answer.done():  # somebody waits for it still
                answer.set_result(event)

        def hear(event: Counted) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(take, event)

        self._counts[id_.asker] = hear
        try:
            self.submit(Count(request, id_, spelled=True))
            async with asyncio.timeout(_COUNT_S):
                return await answer
        except TimeoutError:
            raise no_model() from None
        finally:
            self._counts.pop(id_.asker, None)

    def take(self, event: Event) -> bool:
        """Take an event of the engine, in whichever thread; return whether it was the server's."""
        if isinstance(event, Counted) and event.id.asker < 0:
            if (hear := self._counts.get(event.id.asker)) is not None:
                hear(event)
            return True
        if isinstance(event, PlanReady):
            name = event.model_name
            names = names_of(name, event.model)
            self.model = ServedModel(name, event.plan, int(time.time()), names)
        elif isinstance(event, Unloaded):
            self.model = None
        request_id: str | None = getattr(event, "request_id", None)
        served = request_id is not None and request_id.startswith(ID_PREFIX)
        listener = self._listeners.get(request_id if request_id and served else OTHERS)
        if listener is not None:
            listener(event)
        return served
