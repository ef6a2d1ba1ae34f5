"""A switchboard on a loop of its own, and everything that it tells."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from engine.commands import Command, Connect, Generate, Load, ServerKind, Unload
from engine.events import (
    Connected,
    Event,
    Failed,
    Finished,
    LoadProgress,
    TextDelta,
    Unloaded,
)
from engine.remote.client import Patience
from engine.remote.switchboard import Switchboard
from engine.request import ChatRequest, Message, Role

PATIENCE = 240.0
QUESTION = (Message(Role.USER, "What is rain?"),)


class Here:
    """The engine of this computer, played: tells what `Load` and `Unload` make it tell."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self.commands: list[Command] = []
        self.closed = False

    def submit(self, command: Command) -> None:
        self.commands.append(command)
        match command:
            case Unload():
                self._emit(Unloaded(0.0))
            case Load():
                self._emit(LoadProgress(0.0, "Checking the files", 0.0))

    def close(self, timeout: float = 5.0) -> None:
        del timeout
        self.closed = True


class Elsewhere:
    """A window's view of servers."""

    def __init__(
        self,
        patience: Patience | None = None,
        key: str | None = None,
        here: Callable[[Callable[[Event], None]], Any] = Here,
    ) -> None:
        self.events: list[Event] = []
        self._news = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.board = Switchboard(
            self._hear, here, lambda: self._loop, lambda _url: key, patience or Patience()
        )

    def _hear(self, event: Event) -> None:
        with self._news:
            self.events.append(event)
            self._news.notify_all()

    def connect(self, url: str, kind: ServerKind = ServerKind.OTHER, model: str = "m") -> None:
        self.board.submit(Connect(url, model, kind))
        self.wait(Connected)

    def ask(self, request: ChatRequest | None = None) -> ChatRequest:
        request = request or ChatRequest("a", QUESTION)
        self.board.submit(Generate(request))
        return request

    def answer(self, request: ChatRequest | None = None) -> Finished:
        """Ask, and wait for the end of the answer."""
        asked = self.ask(request)
        return self.wait(Finished, lambda event: event.request_id == asked.id)

    def wait(self, kind: type[Any], where: Callable[[Any], bool] = lambda _: True) -> Any:
        def found() -> Any:
            return next((e for e in self.events if isinstance(e, kind) and where(e)), None)

        with self._news:
            assert self._news.wait_for(found, PATIENCE), self.events
            return found()

    @property
    def text(self) -> str:
        """What the view has been given, piece by piece."""
        return "".join(each.text for each in self.events if isinstance(each, TextDelta))

    @property
    def failure(self) -> Failed:
        (failed,) = (each for each in self.events if isinstance(each, Failed))
        return failed

    def close(self) -> None:
        self.board.close()

        async def end() -> None:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._loop.shutdown_default_executor()

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()
