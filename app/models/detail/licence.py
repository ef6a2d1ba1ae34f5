"""The licence of a model, shown before anything is fetched, and what gated models ask for."""

from __future__ import annotations

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QFrame, QWidget

from app.widgets.boxes import vbox
from app.widgets.flow_layout import FlowLayout
from app.widgets.labels import plain_label
from app.widgets.text_button import text_button
from engine.language import tr

HUB = "https://huggingface.co"


class LicencePart(QWidget):
    """One line, and a box with what to do where terms have to be accepted."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.link, self._page = "", ""
        self.words = plain_label("", self)
        self._box = QFrame(self)
        self._box.setProperty("look", "warning")
        steps = tr(
            "You must accept terms before the download: open them in the browser, accept "
            "them with your account there, then enter an access token of that account here."
        )
        self.gate = plain_label(steps, self._box)
        self.read_button = text_button(
            tr("Read the licence"), self, lambda: open_link(self.link), look="choice"
        )
        self.terms_button = text_button(
            tr("Open the terms"), self._box, lambda: open_link(self._page), look="choice"
        )
        self.token_button = text_button(tr("Enter access token…"), self._box, look="choice")
        buttons = FlowLayout(self.terms_button, self.token_button, spacing=8)
        vbox(self.gate, buttons, to=self._box, spacing=8, margins=(12, 10, 12, 12))
        line = FlowLayout(self.read_button, spacing=12)
        vbox(self.words, line, self._box, to=self, spacing=8, margins=0)

    def show_licence(
        self, repo: str, licence: str | None, link: str | None, *, gated: bool
    ) -> None:
        """Show the terms of use of this repository."""
        self._page = f"{HUB}/{repo}"
        self.link = link or ""
        said = licence or tr("not specified; check the model's page before you use it")
        self.words.setText(tr("Licence: {licence}").format(licence=said))
        self.read_button.setVisible(bool(self.link))
        self._box.setVisible(gated)


def open_link(address: str) -> None:
    """Show a page in the browser; only those of the web."""
    if address.startswith(("https://", "http://")):
        QDesktopServices.openUrl(QUrl(address))
