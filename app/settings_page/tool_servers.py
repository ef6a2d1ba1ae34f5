"""The list of MCP servers in the settings: on and off, their tools, what may always run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QPushButton, QWidget

from app.settings_page.tool_server_dialog import ToolServerDialog
from app.settings_page.tool_server_json import ToolServerJson
from app.tools.server import McpServer
from app.tools.toolbox import Toolbox, entries_of
from app.widgets.boxes import Spacing, fill, hbox, vbox
from app.widgets.confirm import confirm
from app.widgets.labels import plain_label, say
from app.widgets.text_button import text_button
from engine.errors import UserFixable
from engine.language import listed, sentences, tr, tr_count

_NAMED = 8
"""Tools that are named; the others are counted."""


class ToolServers(QWidget):
    """All servers, and the buttons that add one."""

    def __init__(self, toolbox: Toolbox, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._toolbox = toolbox
        self.lines: dict[str, ServerLine] = {}
        self._list = vbox(spacing=8, margins=0)
        self._none = plain_label(tr("No servers yet."), self, "muted")
        self.add_button = text_button(tr("Add a server…"), self, self._add)
        self.paste_button = text_button(tr("Paste JSON…"), self, self._paste)
        vbox(
            self._none,
            self._list,
            Spacing(4),
            hbox(self.add_button, self.paste_button, 1, spacing=8),
            to=self,
            spacing=0,
            margins=0,
        )
        toolbox.changed.connect(self._show)
        self._show()

    def _show(self) -> None:
        servers = self._toolbox.servers
        names = {server.name for server in servers}
        for name in [name for name in self.lines if name not in names]:
            line = self.lines.pop(name)
            self._list.removeWidget(line)
            line.hide()
            line.deleteLater()
        for server in servers:
            if server.name not in self.lines:
                line = self.lines[server.name] = ServerLine(self._toolbox, server.name, self)
                line.edit_asked.connect(partial(self._edit, server.name))
                fill(self._list, line)
            self.lines[server.name].show_server(server)
        self._none.setVisible(not servers)

    def _add(self) -> None:
        ToolServerDialog(self._toolbox, None, self.window()).open()

    def _edit(self, name: str) -> None:
        ToolServerDialog(self._toolbox, self._toolbox.server(name), self.window()).open()

    def _paste(self) -> None:
        ToolServerJson(self._toolbox, self.window()).open()


class ServerLine(QFrame):
    """One server: what it is, how it does, what can be done with it."""

    edit_asked = Signal()

    def __init__(self, toolbox: Toolbox, name: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.setProperty("look", "section")
        self._toolbox, self._name = toolbox, name
        self._trying = False
        self._place = plain_label("", self, "small")
        self.status = plain_label("", self, "muted")
        self._tools = plain_label("", self, "small")
        self.switch = text_button("", self, self._switch)
        self.edit = self._button(tr("Change…"), self.edit_asked.emit)
        self.again = self._button(tr("Ask again"), self._ask_again)
        self.again.setToolTip(tr("Some of its tools run without asking. Press to be asked again."))
        self.removal = self._button(tr("Remove"), self._remove)
        vbox(
            plain_label(name, self, "title"),
            self._place,
            self.status,
            self._tools,
            hbox(self.switch, self.edit, self.again, self.removal, 1, spacing=8),
            to=self,
            spacing=4,
            margins=(14, 10, 14, 12),
        )

    def _button(self, words: str, call: Callable[[], object]) -> QPushButton:
        button = text_button(words, self, call)
        button.setAccessibleName(f"{self._name}: {words}")
        return button

    def show_server(self, server: McpServer) -> None:
        """Show it as it is kept."""
        self._place.setText(server.place)
        if not self._trying:
            count = tr_count("On, with {n} tool", "On, with {n} tools", len(server.tools))
            say(self.status, count if server.enabled else tr("Off"), "muted")
        names = [tool.title or tool.name for tool in server.tools]
        more = len(names) - _NAMED
        if more > 0:
            names[_NAMED:] = [tr_count("{n} more", "{n} more", more)]
        say(self._tools, listed(names) if server.enabled and names else "")
        self.switch.setText(tr("Turn off") if server.enabled else tr("Turn on…"))
        self.switch.setAccessibleName(f"{self._name}: {self.switch.text()}")
        allowed = any(self._toolbox.allowed(entry) for entry in entries_of(server))
        self.again.setVisible(server.enabled and allowed)

    def _switch(self) -> None:
        server = self._toolbox.server(self._name)
        if server is None:
            return
        if server.enabled:
            self._toolbox.turn_off(self._name)
            return
        question, remark = starting_words(server)
        confirm(self, question, remark, tr("Turn on"), partial(self._try, server))

    def _try(self, server: McpServer) -> None:
        self._trying = True
        self.switch.setEnabled(False)
        say(self.status, tr("Asking it for its tools…"), "muted")
        self._toolbox.try_out(server, self._ready, self._failed, self)

    def _ready(self, server: McpServer) -> None:
        self._ended()
        self._toolbox.turn_on(server)

    def _failed(self, error: Exception) -> None:
        self._ended()
        if not isinstance(error, UserFixable):
            raise error
        say(self.status, sentences(error.cause, error.remedy), "danger")

    def _ended(self) -> None:
        self._trying = False
        self.switch.setEnabled(True)

    def _ask_again(self) -> None:
        if (server := self._toolbox.server(self._name)) is not None:
            for entry in entries_of(server):
                self._toolbox.allow(entry, always=False)

    def _remove(self) -> None:
        confirm(
            self,
            tr("Remove the server “{name}”?").format(name=self._name),
            tr("Conversations keep the results of its tools. Its settings are deleted."),
            tr("Remove"),
            partial(self._toolbox.remove, self._name),
        )


def starting_words(server: McpServer) -> tuple[str, str]:
    """Return the question before a server starts or is reached, and all there is to know of it."""
    if server.url:
        question = tr("Connect with {host}?").format(host=server.address.host)
        words = tr(
            "What a model asks of these tools is sent to this address: {address}\n\nTurn it on "
            "only if you trust whoever runs it."
        ).format(address=server.url)
        if not server.address.local and not server.address.encrypted:
            warning = tr("It is not encrypted: others on the way can read what is sent.")
            words = f"{words}\n\n{warning}"
        return question, words
    words = tr(
        "This program starts with your rights: it can read and change what you can. Turn it on "
        "only if you trust whoever wrote it.\n\n{command}"
    ).format(command=server.place)
    return tr("Start the program of “{name}”?").format(name=server.name), words
