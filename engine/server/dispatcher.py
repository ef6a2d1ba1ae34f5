"""The server's door to the engine, which a window may be using as well.

    dispatcher = Dispatcher()
    engine = Engine(lambda event: dispatcher.take(event) or show(event))
    dispatcher.open(engine.submit)

Events of the server's own answers go to whoever waits for them, and to nobody else; everything else
is the window's, and the dispatcher only takes note of which model is loaded.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from engine.commands import Command
from engine.events import Event, PlanReady, Unloaded
from engine.server.completion_request import ID_PREFIX, ServedModel

OTHERS = ""
"""In place of a request's id: all events that are not the server's own."""


class Dispatcher:
    """Passes commands on to an engine and sorts its events."""

    def __init__(self) -> None:
        self.model: ServedModel | None = None
        """The loaded model; None while there is none."""
        self._submit: Callable[[Command], None] | None = None
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

    def take(self, event: Event) -> bool:
        """Take an event of the engine, in whichever thread; return whether it was the server's."""
        if isinstance(event, PlanReady):
            self.model = ServedModel(event.model_name, event.plan, int(time.time()))
        elif isinstance(event, Unloaded):
            self.model = None
        request_id: str | None = getattr(event, "request_id", None)
        served = request_id is not None and request_id.startswith(ID_PREFIX)
        listener = self._listeners.get(request_id if request_id and served else OTHERS)
        if listener is not None:
            listener(event)
        return served
