"""The server in the settings: its address and access token while it runs, and its requests."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QLineEdit,
    QPushButton,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from app.notices import tell
from app.serving.model_server import ModelServer, ServingState
from app.settings import SettingsStore
from app.widgets.confirm import confirm
from app.widgets.labels import LabelledRow, plain_label
from app.widgets.text_button import text_button
from engine.language import sentences, tr

_ROWS = 8
"""Requests that are shown without scrolling."""
_WIDE = (1, 2, 3)
"""Columns that share the room that the others leave."""


class ServingPanel(QWidget):
    """How the server is doing, and what clients need to know while it runs."""

    def __init__(
        self, server: ModelServer, settings: SettingsStore, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._server, self._settings = server, settings
        self.status = plain_label("", self)
        self.address = _ReadOnly(tr("Address"))
        self.token = _ReadOnly(tr("Access token"))
        self.token.setEchoMode(QLineEdit.EchoMode.Password)
        self.rows: list[LabelledRow] = [
            self._row(
                self.address,
                tr("Enter this as the base URL, or API endpoint, of the other program."),
            ),
            self._row(
                self.token,
                tr("Enter this as the API key. Whoever has it can use the model."),
                self._renew_button(),
            ),
        ]
        self.warning = plain_label("", self, "caution")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.status)
        layout.addWidget(self.warning)
        for row in self.rows:
            layout.addWidget(row)
        server.changed.connect(self._show)
        settings.changed.connect(self._show)
        self._show()

    def _row(self, field: _ReadOnly, about: str, *buttons: QPushButton) -> LabelledRow:
        control = QWidget()
        line = QHBoxLayout(control)
        line.setContentsMargins(0, 0, 0, 0)
        line.setSpacing(8)
        copy = text_button(tr("Copy"), control, field.copy_all)
        copy.setAccessibleName(f"{field.accessibleName()}: {copy.text()}")
        for widget in (field, copy, *buttons):
            line.addWidget(widget)
        return LabelledRow(field.accessibleName(), about, control, self)

    def _renew_button(self) -> QPushButton:
        return text_button(tr("New token…"), None, self._renew)

    def _renew(self) -> None:
        confirm(
            self,
            tr("Make a new access token?"),
            tr("Programs that use the present one are refused until you enter the new one there."),
            tr("Make new token"),
            self._server.renew_token,
        )

    def _show(self) -> None:
        server, value = self._server, self._settings.value
        opened, trouble = server.opened, server.trouble
        words, look = "", "muted"
        if trouble is not None:
            words, look = sentences(trouble.cause, trouble.remedy), "danger"
        elif server.state is ServingState.STARTING:
            words = tr("Starting…")
        elif opened is not None and not opened.kept:
            words = tr(
                "Duotail cannot use a keyring on this computer: the access token is new each time."
            )
        _say(self.status, words, look)
        open_to_all = value.serve_network and not value.serve_certificate
        warning = tr(
            "Not encrypted: others in the network can read what is sent, the access token too."
        )
        _say(self.warning, warning if open_to_all else "", "caution")
        if opened is not None:
            self.address.setText(opened.url)
            self.token.setText(opened.token)
        for row in self.rows:
            row.setVisible(opened is not None)


class RequestTable(LabelledRow):
    """The latest requests, as they come and go."""

    def __init__(self, server: ModelServer, parent: QWidget | None = None) -> None:
        self.view = QTableView()
        about = tr("Who uses the server now, and did so lately. What is asked is never kept.")
        super().__init__(tr("Requests"), about, self.view, parent or QWidget(), wide=True)
        self._requests = server.requests
        self.view.setModel(server.requests)
        self.view.setAccessibleName(tr("Requests"))
        self.view.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.view.setShowGrid(False)
        self.view.setWordWrap(False)
        self.view.setTabKeyNavigation(False)
        self.view.setTextElideMode(Qt.TextElideMode.ElideRight)
        self.view.verticalHeader().hide()
        header = self.view.horizontalHeader()
        header.setHighlightSections(False)
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        for column in _WIDE:
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.Stretch)
        self.nothing = plain_label(tr("No requests yet."), self, "muted")
        self._texts.addWidget(self.nothing)
        for signal in (server.requests.rowsInserted, server.requests.rowsRemoved):
            signal.connect(self._follow)
        self._follow()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Rows are as high as their text."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self._follow()

    def _follow(self) -> None:
        some = self._requests.rowCount() > 0
        self.view.setVisible(some)
        self.nothing.setVisible(not some)
        line = self.view.fontMetrics().height() + 10
        self.view.verticalHeader().setDefaultSectionSize(line)
        self.view.setFixedHeight(line * (_ROWS + 1) + 2 * self.view.frameWidth() + 6)


class _ReadOnly(QLineEdit):
    """A text to look at and to copy."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setReadOnly(True)
        self.setAccessibleName(name)
        self.setMinimumWidth(20 * self.fontMetrics().horizontalAdvance("m"))

    def copy_all(self) -> None:
        """Put the whole text on the clipboard, also one that is masked."""
        QGuiApplication.clipboard().setText(self.text())
        tell(tr("Copied."))


def _say(label: QLabel, words: str, look: str) -> None:
    label.setText(words)
    label.setVisible(bool(words))
    if label.property("look") != look:
        label.setProperty("look", look)
        label.style().polish(label)
