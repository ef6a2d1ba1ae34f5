"""One engine for a window and a server."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from engine_session import PATIENCE
from folder_models import FOLDER_TARGET

from engine.cli.loaded import wait_for_model
from engine.commands import Command, Load
from engine.events import Event, Finished, TextDelta
from engine.server.application import ServerApplication
from engine.server.completion_request import ID_PREFIX
from engine.server.dispatcher import Dispatcher
from engine.server.events import RequestStatus
from engine.server.server import Server
from engine.server.settings import ServerSettings
from engine.service.engine import Engine


class Household:
    """A loaded engine, used by a window and by a server at once.

    Attributes:
        window: events that the window gets.
        all: events of both.
    """

    def __init__(self) -> None:
        self.dispatcher = Dispatcher()
        self.window: list[Event] = []
        self.all: list[Event] = []
        self.told: list[RequestStatus] = []
        self._news = threading.Condition()
        self._loaded: SimpleQueue[Event] = SimpleQueue()
        self.engine = Engine(self._hear, sample_devices=False)
        self.dispatcher.open(self.engine.submit)

    def _hear(self, event: Event) -> None:
        with self._news:
            self.all.append(event)  # before a client can know of it
        taken = self.dispatcher.take(event)
        self._loaded.put(event)  # the server knows of it, too
        with self._news:
            if not taken:
                self.window.append(event)
            self._news.notify_all()

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

    def writes_for_client(self, since: int = 0) -> bool:
        """Tell whether an answer for the server has brought text since the `since`-th event."""
        new = self.all[since:]
        return any(isinstance(e, TextDelta) and e.request_id.startswith(ID_PREFIX) for e in new)

    def wait_for_text(self) -> None:
        """Wait until an answer for the server has brought text."""
        self.wait(TextDelta, lambda event: event.request_id.startswith(ID_PREFIX))

    def finished(self, request_id: str) -> bool:
        return any(isinstance(e, Finished) and e.request_id == request_id for e in list(self.all))

    def forget(self) -> None:
        """Start with nothing that was told."""
        with self._news:
            self.all.clear()
            self.window.clear()
            self.told.clear()

    def application(self, **settings: Any) -> Any:
        known = ServerSettings(**{"token": None, **settings})
        return ServerApplication(self.dispatcher, known, self.told.append).asgi

    def server(self, **settings: Any) -> Server:
        return Server(self.dispatcher, ServerSettings(**settings), self.told.append)
