"""One engine for a window and a server."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from engine_session import PATIENCE, until_at_rest
from folder_models import FOLDER_TARGET

from engine.cli.loaded import wait_for_model
from engine.commands import Command, Load, Stop
from engine.events import Event, TextDelta
from engine.server.application import ServerApplication
from engine.server.dispatcher import ID_PREFIX, Dispatcher
from engine.server.events import RequestStatus
from engine.server.server import Server
from engine.server.settings import ServerSettings
from engine.service.engine import Engine


class Household:
    """A loaded engine, used by a window and by a server at once.

    Attributes:
        window: events that the window gets.
        all: events of both.
        at_text: what the engine's thread does at texts for the server, one at each: while an answer
            is written for sure, however long other threads wait for their turn.
        stopped: set when the server has stopped an answer.
    """

    def __init__(self) -> None:
        self.dispatcher = Dispatcher()
        self.window: list[Event] = []
        self.all: list[Event] = []
        self.told: list[RequestStatus] = []
        self.at_text = deque[Callable[[], object]]()
        self.stopped = threading.Event()
        self._news = threading.Condition()
        self._loaded: SimpleQueue[Event] = SimpleQueue()
        self.engine = Engine(self._hear, sample_devices=False)
        self.dispatcher.open(self._of_server)

    def _of_server(self, command: Command) -> None:
        self.engine.submit(command)
        if isinstance(command, Stop):
            self.stopped.set()

    def _hear(self, event: Event) -> None:
        with self._news:
            self.all.append(event)  # before a client can know of it
        taken = self.dispatcher.take(event)
        self._loaded.put(event)  # the server knows of it, too
        with self._news:
            if not taken:
                self.window.append(event)
            self._news.notify_all()
        if self.at_text and _is_text_of_server(event):
            self.at_text.popleft()()

    def load(self, model: Path = FOLDER_TARGET) -> None:
        self._loaded = SimpleQueue()  # what happened before is no answer to this
        self.engine.submit(Load(model))
        wait_for_model(self._loaded)

    def submit(self, command: Command) -> None:
        self.engine.submit(command)

    def wait(self, kind: type[Any], where: Callable[[Any], bool] = lambda _: True) -> Any:
        """The first fitting event, of either."""

        def found() -> Any:
            return next((e for e in self.all if isinstance(e, kind) and where(e)), None)

        with self._news:
            assert self._news.wait_for(found, PATIENCE), self.all
            return found()

    def wait_for_text(self) -> None:
        """Wait until an answer for the server has brought text."""
        self.wait(TextDelta, _is_text_of_server)

    def hold_until_stopped(self) -> None:
        """Keep the server's next answer at its first text until the server stops it."""
        self.stopped.clear()
        self.at_text.append(lambda: self.stopped.wait(PATIENCE))

    def forget(self) -> None:
        """Start with nothing that was told, and nothing to do.

        First the engine ends what is left of answers that nobody waited for: else their texts were
        taken for those of the next one.
        """
        self.at_text.clear()
        self.stopped.set()
        until_at_rest(self.engine)
        with self._news:
            self.all.clear()
            self.window.clear()
            self.told.clear()

    def application(self, **settings: Any) -> Any:
        known = ServerSettings(**{"token": None, **settings})
        return ServerApplication(self.dispatcher, known, self.told.append).asgi

    def server(self, **settings: Any) -> Server:
        return Server(self.dispatcher, ServerSettings(**settings), self.told.append)


def _is_text_of_server(event: Event) -> bool:
    return isinstance(event, TextDelta) and event.request_id.startswith(ID_PREFIX)
