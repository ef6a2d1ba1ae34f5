"""Notice on why a wish cannot be met, with what is possible instead as buttons."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QLabel, QPushButton, QWidget

from app.signals import TypedSignal
from app.theme.fonts import keep_sized, scaled
from app.theme.icons import icon
from app.theme.theme import current
from app.tuning.refusal import button_words
from app.tuning.refusal import refusal as in_words
from app.widgets.boxes import hbox, vbox
from app.widgets.labels import plain_label, say
from app.widgets.text_button import text_button
from engine.commands import Load
from engine.events import Failed, WayOut
from engine.language import sentences

_ICON = 20


class RefusalNotice(QFrame):
    """Shows what a preview says of a load that cannot be."""

    chosen = TypedSignal[Load]()
    """A way out."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("look", "warning")
        self._refusal: Failed | None = None
        self._icon = QLabel(self)
        keep_sized(self._icon, lambda: self._icon.setFixedSize(scaled(_ICON), scaled(_ICON)))
        self.cause = plain_label("", self, "title")
        self.remedy = plain_label("", self)
        self.buttons: list[QPushButton] = []
        self._ways = hbox(1, spacing=8)
        hbox(
            (self._icon, 0, Qt.AlignmentFlag.AlignTop),
            (vbox(self.cause, self.remedy, self._ways, spacing=4), 1),
            to=self,
            spacing=12,
            margins=(14, 10, 14, 12),
        )
        self.hide()

    def show_refusal(self, refusal: Failed | None) -> None:
        """Show why not; None: it can be."""
        self.setVisible(refusal is not None)
        if refusal is None or refusal == self._refusal:
            return
        self._refusal = refusal
        self._icon.setPixmap(
            icon("warning", current().warning).pixmap(scaled(_ICON), scaled(_ICON))
        )
        told = in_words(refusal)
        self.cause.setText(told.cause)
        say(self.remedy, told.remedy)
        self.setToolTip(told.details)
        self.setAccessibleName(told.cause)
        self.setAccessibleDescription(sentences(told.cause, told.remedy))
        for button in self.buttons:
            button.deleteLater()
        self.buttons = [self._way(way) for way in refusal.ways_out]
        for place, button in enumerate(self.buttons):
            self._ways.insertWidget(place, button)

    def _way(self, way: WayOut) -> QPushButton:
        return text_button(button_words(way), self, lambda: self.chosen.emit(way.load))
