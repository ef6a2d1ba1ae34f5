"""`duotail chat --server`: a model on a server answers, without an engine here."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from engine.cli.exit_code import on_interrupt
from engine.cli.loaded import error_of
from engine.cli.options import add_model_options, said_sampling
from engine.commands import Connect
from engine.errors import UserFixable
from engine.events import Event, Failed, Finished, TextDelta
from engine.language import listed, tr
from engine.remote.address import ServerAddress
from engine.remote.answer import RemoteAnswer
from engine.remote.client import ServerClient
from engine.remote.servers import RemoteServer, ServerKeys
from engine.request import ChatRequest

KEY_VARIABLE = "DUOTAIL_SERVER_KEY"
_NAMED = 5

T = TypeVar("T")


class RemoteConversation:
    """Has a model on a server answer.

    Args:
        arguments: `server`, and `model`, whose default is the first that the server lists.

    Raises:
        UserFixable: the server cannot be asked, has no such model, or an option is none of its.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        address = ServerAddress.typed(arguments.server)
        _check(arguments)
        self._said = said_sampling(arguments)
        self._key = os.environ.get(KEY_VARIABLE) or ServerKeys().key(address.url)
        self._address = address
        self._place = _run(_found(address, self._key, arguments.model))

    @property
    def model(self) -> str:
        """Name of the model that answers."""
        return self._place.model

    def load(self, name: str) -> str:
        """Have another model of the server answer; return its name."""
        self._place = _run(_found(self._address, self._key, name))
        return self.model

    def ask(self, request: ChatRequest, show: Callable[[str], None]) -> Finished:
        """Wait for an answer; `show` gets its pieces. Raises UserFixable where it failed."""
        told: list[Failed | Finished] = []

        def emit(event: Event) -> None:
            if isinstance(event, TextDelta):
                show(event.text)
            elif isinstance(event, Failed | Finished):
                told.append(event)

        async def write() -> None:
            answer = RemoteAnswer(request, self._place, emit, lambda _: self._key, said=self._said)
            loop = asyncio.get_running_loop()

            def stop() -> None:
                loop.call_soon_threadsafe(answer.stop)

            with on_interrupt(stop):
                await answer.write()

        _run(write())
        *failures, finished = told
        if failures and isinstance(failures[0], Failed):
            raise error_of(failures[0])
        assert isinstance(finished, Finished)  # noqa: S101 - an answer ends with it
        return finished

    def close(self) -> None:
        """Do nothing: no connection outlives its answer."""


def _check(arguments: argparse.Namespace) -> None:
    """Refuse options that say how a model is loaded on this computer."""
    usual = argparse.ArgumentParser()
    add_model_options(usual)
    defaults = usual.parse_args([])
    names = sorted(set(vars(defaults)) - {"model", "json"})
    given = [each for each in names if getattr(arguments, each) != getattr(defaults, each)]
    if given:
        raise UserFixable(
            tr("The server decides how its model runs: {options}.").format(
                options=listed(f"--{name.replace('_', '-')}" for name in given)
            ),
            tr("Leave these options out, or --server."),
        )


async def _found(address: ServerAddress, key: str | None, name: str | None) -> Connect:
    """Return the command for a model, by the server's own list."""
    catalogue = await ServerClient(address, key).catalogue()
    server = RemoteServer(address.url).told(catalogue)
    for model in catalogue.models:
        if name in (None, model.name):
            return server.connect(model)
    names = [model.name for model in catalogue.models]
    more = "…" if len(names) > _NAMED else ""
    raise UserFixable(
        tr("{host} has no model “{name}”.").format(host=address.host, name=name),
        tr("It has: {names}").format(names=listed(names[:_NAMED]) + more),
    )


def _run(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner() as runner:
        return runner.run(work)
