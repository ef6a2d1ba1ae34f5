"""The dialog that takes servers from the JSON that their pages show."""

from __future__ import annotations

import json

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontDatabase
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QPlainTextEdit, QWidget

from app.theme.fonts import scaled
from app.tools.server import servers_of
from app.tools.toolbox import Toolbox
from app.widgets.boxes import vbox
from app.widgets.labels import plain_label, say
from engine.errors import UserFixable
from engine.language import listed, sentences, tr

_WIDTH, _HEIGHT = 560, 260
_MOST = 200_000


class ToolServerJson(QDialog):
    """Takes pasted text. All servers in it are added, and are off; nothing starts here."""

    def __init__(self, toolbox: Toolbox, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._toolbox = toolbox
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(tr("Paste JSON"))
        self.text = QPlainTextEdit(self, tabChangesFocus=True)
        self.text.setPlaceholderText(
            tr('{"mcpServers": {"files": {"command": "npx", "args": ["-y", "…"]}}}')
        )
        self.text.setAccessibleName(tr("JSON"))
        self.text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.text.setMinimumHeight(scaled(_HEIGHT))
        self.outcome = plain_label("", self, "danger")
        self.outcome.hide()
        self.box = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel, self)
        self.box.addButton(tr("Add"), QDialogButtonBox.ButtonRole.AcceptRole)
        self.box.accepted.connect(self.take)
        self.box.rejected.connect(self.reject)
        about = tr(
            "Paste the JSON with “mcpServers” that a server's page shows. Its servers are added, "
            "turned off."
        )
        vbox(plain_label(about, self, "muted"), (self.text, 1), self.outcome, self.box, to=self)
        self.setMinimumWidth(scaled(_WIDTH))

    def take(self) -> None:
        """Add the servers, all of them or none."""
        text = self.text.toPlainText()
        try:
            if len(text) > _MOST:
                raise UserFixable(tr("This text is far too long."), "")
            servers = servers_of(_loaded(text))
            names = [each.name for each in servers]
            taken = [name for name in names if self._toolbox.server(name) is not None]
            if taken:
                said = tr("There are servers of these names already: {names}.")
                raise UserFixable(
                    said.format(names=listed(taken)), tr("Remove them first, or use other names.")
                )
        except UserFixable as error:
            say(self.outcome, sentences(error.cause, error.remedy))
            return
        for each in servers:
            self._toolbox.keep(each)
        self.accept()


def _loaded(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserFixable(
            tr("This is not valid JSON."), tr("Paste all of it, with its braces."), str(error)
        ) from error
