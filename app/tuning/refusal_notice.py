"""Notice on why a wish cannot be met, with what is possible instead as buttons."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.signals import TypedSignal
from app.theme.fonts import keep_sized, scaled
from app.theme.icons import icon
from app.theme.theme import current
from app.tuning.refusal import button_words
from app.tuning.refusal import refusal as in_words
from app.widgets.labels import plain_label
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
        self._ways = QHBoxLayout()
        self._ways.setSpacing(8)
        self._ways.addStretch(1)
        words = QVBoxLayout()
        words.setSpacing(4)
        words.addWidget(self.cause)
        words.addWidget(self.remedy)
        words.addLayout(self._ways)
        row = QHBoxLayout(self)
        row.setContentsMargins(14, 10, 14, 12)
        row.setSpacing(12)
        row.addWidget(self._icon, 0, Qt.AlignmentFlag.AlignTop)
        row.addLayout(words, 1)
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
        self.remedy.setText(told.remedy)
        self.remedy.setVisible(bool(told.remedy))
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
