"""The dialog that adds an MCP server by hand, or changes one."""

from __future__ import annotations

import shlex
from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QLineEdit,
    QPlainTextEdit,
    QRadioButton,
    QWidget,
)

from app.theme.fonts import scaled
from app.tools.server import McpServer
from app.tools.toolbox import Toolbox
from app.widgets.boxes import Spacing, hbox, vbox
from app.widgets.labels import plain_label, say
from engine.errors import UserFixable
from engine.language import sentences, tr

_WIDTH = 520
_LINES = 3
_BEARER = "Bearer "
_KEPT = "\N{BULLET}" * 12


class ToolServerDialog(QDialog):
    """Asks for a name and a command, or an address. What is added is off; nothing starts here.

    Args:
        toolbox: where it is kept.
        server: the one to change; None: a new one.
    """

    def __init__(
        self, toolbox: Toolbox, server: McpServer | None = None, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._toolbox, self._old = toolbox, server
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(tr("Add an MCP server") if server is None else server.name)
        self.name = self._field(tr("Name"), tr("files"))
        self.by_command = QRadioButton(tr("Program on this computer"), self)
        self.by_address = QRadioButton(tr("Address"), self)
        self.command = self._field(tr("Command"), "npx -y @modelcontextprotocol/server-everything")
        self.words = plain_label("", self, "small")
        self.variables = QPlainTextEdit(self, tabChangesFocus=True)
        self.variables.setAccessibleName(tr("Variables"))
        self.variables.setPlaceholderText(tr("API_KEY=…"))
        self.variables.setFixedHeight(
            self.variables.fontMetrics().lineSpacing() * _LINES + scaled(18)
        )
        self.address = self._field(tr("Address"), "http://127.0.0.1:8000/mcp")
        self.key = self._field(tr("Key"), tr("None"))
        self.key.setEchoMode(QLineEdit.EchoMode.Password)
        self.outcome = plain_label("", self, "danger")
        self.box = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel, self)
        words = tr("Add") if server is None else tr("Save")
        self.keep_button = self.box.addButton(words, QDialogButtonBox.ButtonRole.AcceptRole)
        self.box.accepted.connect(self._keep)
        self.box.rejected.connect(self.reject)
        self._arrange()
        self.by_command.setChecked(server is None or not server.url)
        self.by_address.setChecked(not self.by_command.isChecked())
        self._fill(server)
        self.command.textChanged.connect(lambda _: self._show())
        self.by_command.toggled.connect(lambda _: self._show())
        self._show()

    def _field(self, name: str, example: str) -> QLineEdit:
        field = QLineEdit(self, placeholderText=example, maxLength=4_000)
        field.setAccessibleName(name)
        return field

    def _arrange(self) -> None:
        self._program, self._elsewhere = QWidget(self), QWidget(self)
        secret = tr(
            "Variables and keys are kept in your system's keyring; without one, in a file that "
            "only you can read."
        )
        if self._old is not None and self._old.sealed:
            secret = tr("Values are in the keyring. What you leave empty stays as it is.")
        vbox(
            plain_label(tr("Command"), self._program),
            self.command,
            self.words,
            plain_label(tr("Variables, one in each line"), self._program),
            self.variables,
            to=self._program,
            spacing=6,
            margins=0,
        )
        vbox(
            plain_label(tr("Address"), self._elsewhere),
            self.address,
            plain_label(tr("Key"), self._elsewhere),
            self.key,
            to=self._elsewhere,
            spacing=6,
            margins=0,
        )
        vbox(
            plain_label(tr("Name"), self),
            self.name,
            Spacing(4),
            hbox(self.by_command, self.by_address, 1, spacing=16),
            self._program,
            self._elsewhere,
            plain_label(secret, self, "small"),
            self.outcome,
            self.box,
            to=self,
            spacing=8,
        )
        self.setMinimumWidth(scaled(_WIDTH))

    def _fill(self, server: McpServer | None) -> None:
        say(self.outcome, "")
        if server is None:
            return
        self.name.setText(server.name)
        self.name.setReadOnly(True)
        self.command.setText(shlex.join(server.command))
        self.variables.setPlainText("\n".join(f"{n}={value}" for n, value in server.variables))
        self.address.setText(server.url)
        headers = dict(server.headers)
        self.key.setText(headers.get("Authorization", "").removeprefix(_BEARER))
        if server.sealed and "Authorization" in headers:
            self.key.setPlaceholderText(_KEPT)

    def _show(self) -> None:
        local = self.by_command.isChecked()
        self._program.setVisible(local)
        self._elsewhere.setVisible(not local)
        words = self._words()
        told = "  ·  ".join(words) if words else ""
        say(self.words, tr("Program and arguments: {words}").format(words=told) if told else "")
        layout = self.layout()
        assert layout is not None  # noqa: S101 - told to the type checker
        width = max(self.width(), self.minimumWidth())
        self.resize(width, layout.totalHeightForWidth(width))

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Fit the height once the fonts are known."""
        super().showEvent(event)
        self._show()

    def _words(self) -> tuple[str, ...] | None:
        """Return the command as a list; None while a quote is open."""
        try:
            return tuple(shlex.split(self.command.text()))
        except ValueError:
            return None

    def entered(self) -> McpServer:
        """Return what is entered; it is off.

        Raises:
            UserFixable: it is no server.
        """
        name, old = self.name.text().strip(), self._old
        if old is None and self._toolbox.server(name) is not None:
            raise UserFixable(tr("Another server has this name."), "")
        if self.by_address.isChecked():
            others = () if old is None else tuple(h for h in old.headers if h[0] != "Authorization")
            key = self.key.text().strip()
            stays = old is not None and old.sealed and "Authorization" in dict(old.headers)
            own = _BEARER + key if key else ""
            headers = (*others, ("Authorization", own)) if key or stays else others
            return McpServer(name, url=self.address.text().strip(), headers=headers)
        words = self._words()
        if words is None:
            raise UserFixable(tr("A quote in the command is not closed."), "")
        lines = [line for line in self.variables.toPlainText().splitlines() if line.strip()]
        pairs = tuple((n.strip(), value) for n, _, value in (line.partition("=") for line in lines))
        folder = "" if old is None else old.folder
        return McpServer(name, words, pairs, folder)

    def _keep(self) -> None:
        try:
            server = self.entered()
        except UserFixable as error:
            say(self.outcome, sentences(error.cause, error.remedy))
            return
        if self._old is not None and server.identity == self._old.identity:
            server = replace(server, enabled=self._old.enabled, tools=self._old.tools)
        self._toolbox.keep(server)
        self.accept()
