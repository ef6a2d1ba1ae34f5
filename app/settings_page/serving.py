"""The server in the settings: how it is doing, its address and access token while it runs."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLineEdit, QPushButton, QWidget

from app.notices import tell
from app.serving.model_server import ModelServer, ServingState
from app.settings import SettingsStore
from app.widgets.boxes import hbox, vbox
from app.widgets.confirm import confirm
from app.widgets.labels import LabelledRow, plain_label, say
from app.widgets.text_button import text_button
from engine.language import sentences, tr


class ServingPanel(QWidget):
    """How the server is doing, and what clients need to know while it runs."""

    requests_asked = Signal()

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
        show = text_button(tr("Show…"), self, self.requests_asked.emit)
        about = tr(
            "Programs that use the server now, or did so recently. What is asked is never kept."
        )
        self.rows.append(LabelledRow(tr("Requests"), about, show, self))
        show.setAccessibleName(tr("Show requests"))
        self.details = QWidget(self)
        vbox(*self.rows, to=self.details, spacing=0, margins=0)
        vbox(self.status, self.warning, self.details, to=self, spacing=0, margins=0)
        server.changed.connect(self._show)
        settings.changed.connect(self._show)
        self._show()

    def _row(self, field: _ReadOnly, about: str, *buttons: QPushButton) -> LabelledRow:
        control = QWidget()
        copy = text_button(tr("Copy"), control, field.copy_all)
        copy.setAccessibleName(f"{field.accessibleName()}: {copy.text()}")
        hbox(field, copy, *buttons, to=control, spacing=8, margins=0)
        return LabelledRow(field.accessibleName(), about, control, self, wide=True)

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
        say(self.status, words, look)
        open_to_all = value.serve_network and not value.serve_certificate
        warning = tr(
            "Not encrypted: others in the network can read what is sent, the access token too."
        )
        say(self.warning, warning if open_to_all else "", "caution")
        if opened is not None:
            self.address.setText(opened.url)
            self.token.setText(opened.token)
        self.details.setVisible(opened is not None)


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
        tell(tr("Copied"))
