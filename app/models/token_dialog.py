"""Asks for the user's token at the hub, for models that want to know who one is."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QLineEdit, QWidget

from app.models.detail.licence import HUB, open_link
from app.models.hub_client import HubClient
from app.theme.fonts import scaled
from app.widgets.boxes import hbox, vbox
from app.widgets.labels import plain_label
from app.widgets.text_button import text_button
from engine.language import tr

_WIDTH = 460


def ask_for_token(hub: HubClient, above: QWidget) -> None:
    """Let the user put in a token, or remove the one that is kept."""
    dialog = TokenDialog(above.window())
    dialog.given.connect(hub.keep_token)
    dialog.open()


class TokenDialog(QDialog):
    """A field that shows dots; the token goes into the keyring of the system and nowhere else."""

    given = Signal(str)
    """The token; empty: the one that is kept shall be removed."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Access token for Hugging Face"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.field = QLineEdit(self, echoMode=QLineEdit.EchoMode.Password, maxLength=300)
        self.field.setAccessibleName(tr("Token"))
        about = plain_label(
            tr(
                "Some models require an account that has accepted their terms. A read token "
                "tells the hub which account is yours."
            ),
            self,
        )
        where = plain_label(
            tr(
                "It is stored in your system's keyring, sent only to the hub, and never "
                "written to a file or log."
            ),
            self,
            "small",
        )
        make = text_button(
            tr("Create a token in the browser"),
            self,
            lambda: open_link(f"{HUB}/settings/tokens"),
            look="choice",
        )
        box = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel, self)
        self.keep_button = box.addButton(tr("Save"), QDialogButtonBox.ButtonRole.AcceptRole)
        self.remove_button = box.addButton(
            tr("Remove saved token"), QDialogButtonBox.ButtonRole.ResetRole
        )
        self.keep_button.setEnabled(False)
        self.keep_button.setDefault(True)
        self.field.textChanged.connect(lambda text: self.keep_button.setEnabled(bool(text.strip())))
        box.accepted.connect(self._keep)
        box.rejected.connect(self.reject)
        self.remove_button.clicked.connect(self._remove)
        vbox(about, self.field, hbox(make, 1), where, box, to=self, spacing=12)
        self.setMinimumWidth(scaled(_WIDTH))
        self.field.setFocus()

    def _keep(self) -> None:
        self.given.emit(self.field.text().strip())
        self.accept()

    def _remove(self) -> None:
        self.given.emit("")
        self.accept()
