"""The engine's door with servers behind it: commands go where the model in use is.

A model is in use either here or on a server. `Connect` unloads the one here, and is answered with
`Connected` once that is gone; `Load` and `Unload` leave the server, and what it is writing ends as
stopped. Questions, calibration and comparison are always the engine's own; what a request would
come to in tokens only a model here can tell, so `Count` waits until there is one again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

from engine.commands import (
    Command,
    Connect,
    Generate,
    Load,
    Mode,
    Stop,
    Unload,
)
from engine.events import Connected, Event, PlanSummary, Unloaded
from engine.language import tr
from engine.remote.address import ServerAddress

if TYPE_CHECKING:
    import asyncio

    from engine.remote.answer import RemoteAnswer
    from engine.remote.client import Patience


class EngineDoor(Protocol):
    """The part of `engine.service.engine.Engine` that commands go through."""

    def submit(self, command: Command) -> None:
        """Ask for something; never blocks."""

    def close(self, timeout: float = 5.0) -> None:
        """Stop whatever runs and end the engine's threads."""


class Switchboard:
    """Takes the commands of a window, from any thread.

    Args:
        emit: takes all events, from any thread.
        here: makes the engine of this computer, which emits into what it is given.
        loop: gives the event loop that connections live in.
        key_of: gives the key for the address of a server; called beside the loop.
        patience: how long to wait for servers.
    """

    def __init__(
        self,
        emit: Callable[[Event], None],
        here: Callable[[Callable[[Event], None]], EngineDoor],
        loop: Callable[[], asyncio.AbstractEventLoop],
        key_of: Callable[[str], str | None],
        patience: Patience | None = None,
    ) -> None:
        self._emit, self._loop, self._key_of, self._patience = emit, loop, key_of, patience
        self._gate = threading.Lock()
        self._place: Connect | None = None
        self._answers: dict[str, RemoteAnswer] = {}
        self._here = here(self._from_here)

    def submit(self, command: Command) -> None:
        """Hand over a command; never blocks."""
        match command:
            case Connect():
                with self._gate:
                    self._place = command
                self._stop(None)
                self._here.submit(Unload())
            case Load() | Unload():
                with self._gate:
                    self._place = None
                self._stop(None)
                self._here.submit(command)
            case Generate() if (place := self._place) is not None:
                self._generate(command, place)
            case Stop(request_id):
                self._stop(request_id)
                self._here.submit(command)
            case _:
                self._here.submit(command)

    def close(self, timeout: float = 5.0) -> None:
        """Hang up, and end the engine."""
        self._stop(None)
        self._here.close(timeout)

    def _from_here(self, event: Event) -> None:
        self._emit(event)
        if isinstance(event, Unloaded):
            with self._gate:
                place = self._place
            if place is not None:
                self._emit(Connected(perf_counter(), place, _plan(place)))

    def _generate(self, command: Generate, place: Connect) -> None:
        import asyncio  # most windows never need these

        from engine.remote.answer import RemoteAnswer

        request = command.request
        answer = RemoteAnswer(request, place, self._emit, self._key_of, self._patience)
        with self._gate:
            self._answers[request.id] = answer
        work = asyncio.run_coroutine_threadsafe(answer.write(), self._loop())
        work.add_done_callback(lambda _: self._forget(request.id))

    def _forget(self, request_id: str) -> None:
        with self._gate:
            self._answers.pop(request_id, None)

    def _stop(self, request_id: str | None) -> None:
        """Stop one answer of a server, or all."""
        with self._gate:
            meant = [each for name, each in self._answers.items() if request_id in (None, name)]
        for answer in meant:
            with suppress(RuntimeError):  # the loop has ended, and the answer with it
                self._loop().call_soon_threadsafe(answer.stop)


def _plan(place: Connect) -> PlanSummary:
    """Return what is known of how a model runs elsewhere."""
    host = ServerAddress(place.url).host
    return PlanSummary(
        mode=Mode.PLAIN,
        target_device=host,
        draft_device=None,
        draft=None,
        context=place.context or 0,
        signature="",
        reasons=(tr("This model runs on {host}.").format(host=host),),
        context_limit=place.context or 0,
        host=host,
    )
