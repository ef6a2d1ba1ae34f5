"""Models on servers in the menu of models, and what is asked before the first word is sent."""

from __future__ import annotations

from functools import partial

from PySide6.QtGui import QActionGroup
from PySide6.QtWidgets import QMenu, QWidget

from app.engine_link.bridge import EngineBridge
from app.models.server_book import ServerBook
from app.models.server_texts import consent_words, server_name
from app.theme.icons import icon
from app.theme.theme import current
from app.widgets.confirm import confirm
from engine.language import tr
from engine.remote.catalogue import RemoteModel
from engine.remote.servers import RemoteServer

_MOST_SHOWN = 12
"""Models of one server in the menu itself; with more, they are in a menu of their own."""


class ServerMenu:
    """Fills menus with the models of servers.

    Args:
        book: the servers.
        bridge: says which model is in use.
        window: what dialogs open above.
    """

    def __init__(self, book: ServerBook, bridge: EngineBridge, window: QWidget) -> None:
        self._book, self._bridge, self._window = book, bridge, window

    def add_models(self, menu: QMenu, group: QActionGroup) -> None:
        """Add the models of each server below its name."""
        for server in self._book.servers:
            place = menu
            if len(server.models) > _MOST_SHOWN:
                place = menu.addMenu(icon("globe", current().muted), server_name(server))
            else:
                menu.addSeparator()
                heading = menu.addAction(icon("globe", current().muted), server_name(server))
                heading.setEnabled(False)
            for model in server.models:
                self._add_model(place, group, server, model)

    def _add_model(
        self, menu: QMenu, group: QActionGroup, server: RemoteServer, model: RemoteModel
    ) -> None:
        name = server.connect(model).label
        action = menu.addAction(name.replace("&", "&&"), partial(self.choose, server, model))
        action.setToolTip(tr("Runs on {host}").format(host=server.address.host))
        action.setCheckable(True)
        status = self._bridge.status
        in_use = status.plan is not None and status.plan.host == server.address.host
        action.setChecked(in_use and status.model_name == name)
        group.addAction(action)

    def add_servers(self, menu: QMenu) -> None:
        """Add what adds a server, and what changes those that there are."""
        if not self._book.servers:
            menu.addAction(tr("Add a server…"), self.add)
            return
        inner = menu.addMenu(tr("Servers"))
        for server in self._book.servers:
            words = f"{server_name(server)}…"
            inner.addAction(words, partial(self.change, server))
        inner.addSeparator()
        inner.addAction(tr("Add a server…"), self.add)

    def add(self) -> None:
        """Let the user add a server."""
        self._open(None)

    def change(self, server: RemoteServer) -> None:
        """Let the user test, change or remove a server."""
        self._open(server)

    def _open(self, server: RemoteServer | None) -> None:
        from app.models.server_dialog import ServerDialog  # not for the first picture

        dialog = ServerDialog(self._book, server, self._window)
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    def choose(self, server: RemoteServer, model: RemoteModel) -> None:
        """Have a model answer; before the first one of a server, ask."""
        now = self._book.server(server.url) or server
        if not now.needs_consent:
            self._book.use(now, model)
            return
        question, remark = consent_words(now)
        action = tr("Use this server")
        confirm(self._window, question, remark, action, lambda: self._agreed(now, model))

    def _agreed(self, server: RemoteServer, model: RemoteModel) -> None:
        self._book.use(self._book.agree(server), model)
