"""Servers that the user has added: tested, kept, and their models put to use."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app.engine_link.background import BackgroundQueue
from app.engine_link.bridge import EngineBridge
from app.engine_link.window_loop import WindowLoop
from app.notices import report, tell
from engine.commands import Connect
from engine.errors import UserFixable
from engine.events import Connected, PlanReady
from engine.language import tr
from engine.remote import servers
from engine.remote.address import ServerAddress
from engine.remote.catalogue import RemoteModel
from engine.remote.servers import KeptServers, RemoteServer, ServerKeys

if TYPE_CHECKING:
    from engine.remote.catalogue import Catalogue

_log = logging.getLogger(__name__)


class ServerBook(QObject):
    """Keeps the servers in a file, and their keys in the keyring.

    Nothing is sent to a server but by `test`, and by answers that are asked for.

    Args:
        path: the file.
        keys: of the servers.
        loop: where tests run.
        bridge: to the engine, and to servers behind it.
    """

    changed = Signal()

    def __init__(
        self,
        path: Path,
        keys: ServerKeys,
        loop: WindowLoop,
        bridge: EngineBridge,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._path, self._keys, self._loop, self._bridge = path, keys, loop, bridge
        self._kept = servers.read(path)
        self._keyring = BackgroundQueue(self)
        bridge.subscribe(Connected, self._connected)
        bridge.subscribe(PlanReady, lambda _: self._keep(replace(self._kept, url="", model="")))

    @property
    def servers(self) -> tuple[RemoteServer, ...]:
        """Return all of them, in the order in which they were added."""
        return self._kept.servers

    def server(self, url: str) -> RemoteServer | None:
        """Return the server of an address."""
        return self._kept.server(url)

    def last(self) -> Connect | None:
        """Return what the start is to connect with: the model that answered last, if elsewhere."""
        last = self._kept.last
        if last is not None:
            self._loop.get()  # in the window's thread, before another one needs it
        return last

    def test(
        self,
        address: ServerAddress,
        key: str | None,
        done: Callable[[Catalogue], None],
        failed: Callable[[Exception], None],
        owner: QObject,
    ) -> Callable[[], object]:
        """Ask a server for its models; returns what calls that off.

        Args:
            address: the server.
            key: for it; None: the one that is kept.
            done, failed: get what came of it, unless `owner` is gone.
        """
        return self._loop.run(owner, self._ask(address, key), done, failed)

    async def _ask(self, address: ServerAddress, key: str | None) -> Catalogue:
        import asyncio

        from engine.remote.client import ServerClient

        if key is None:
            key = await asyncio.to_thread(self._keys.key, address.url)
        return await ServerClient(address, key).catalogue()

    def keep(self, server: RemoteServer, key: str | None) -> None:
        """Keep a server; a `key` of None leaves the one that is kept."""
        self._keep(self._kept.having(server))
        if key is not None:
            self._keyring.do(partial(self._keys.keep, server.url, key), self._tell_of_key)

    def remove(self, url: str) -> None:
        """Forget a server and its key; a model of it that is in use stays so for now."""
        self._keep(self._kept.without(url))
        self._keyring.do(partial(self._keys.keep, url, ""))

    def agree(self, server: RemoteServer) -> RemoteServer:
        """Note that the user knows where their words go; returns the server as it is now."""
        agreed = replace(server, agreed=True)
        self._keep(self._kept.having(agreed))
        return agreed

    def use(self, server: RemoteServer, model: RemoteModel) -> None:
        """Have a model answer from now on."""
        self._loop.get()  # in the window's thread, before another one needs it
        self._bridge.submit(server.connect(model))

    def _connected(self, event: Connected) -> None:
        self._keep(replace(self._kept, url=event.place.url, model=event.place.model))

    def _keep(self, kept: KeptServers) -> None:
        if kept == self._kept:
            return
        self._kept = kept
        try:
            servers.write(self._path, kept)
        except OSError as error:
            report(
                UserFixable(
                    tr("The list of servers could not be saved."),
                    tr("Check that the drive has room and can be written to."),
                    str(error),
                )
            )
        self.changed.emit()

    def _tell_of_key(self, kept: bool) -> None:
        if not kept:
            tell(tr("This computer has no keyring: the key is kept until Duotail closes."))
