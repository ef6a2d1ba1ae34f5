"""The bar at the foot of the page: what runs, what would change, and the ways to let it."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal, SignalInstance
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QFrame, QPushButton, QWidget

from app.engine_link.plan_texts import unbroken
from app.theme.fonts import scaled
from app.widgets.boxes import fill, hbox, vbox
from app.widgets.labels import plain_label, say
from app.widgets.text_button import text_button
from engine.language import tr

_ROOM_FOR_WORDS = 380
"""Logical pixels of text below which the buttons go under the words."""


class ApplyBar(QFrame):
    """Words and buttons; knows nothing of models."""

    apply_asked = Signal()
    """After an answer that is being written."""
    now_asked = Signal()
    """The change is asked for at once."""
    undo_asked = Signal()
    cancel_asked = Signal()
    """The load under way shall be called off."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("look", "foot")
        self.setAccessibleName(tr("What would change"))
        self.change = plain_label("", self, "title")
        self.now = plain_label("", self, "small")
        self.undo_button = self._button(tr("Undo"), self.undo_asked)
        self.cancel_button = self._button(tr("Cancel"), self.cancel_asked)
        self.cancel_button.setAccessibleName(tr("Cancel loading"))
        self.now_button = self._button(tr("Apply now"), self.now_asked)
        self.now_button.setToolTip(tr("Pauses the answer, then continues it with the change"))
        self.apply_button = self._button(tr("Apply"), self.apply_asked)
        self.apply_button.setProperty("look", "primary")
        self._buttons = hbox(
            self.undo_button, self.cancel_button, self.now_button, self.apply_button, spacing=8
        )
        self._row = QBoxLayout(QBoxLayout.Direction.LeftToRight, self)
        self._row.setSpacing(16)
        fill(self._row, (vbox(self.change, self.now, spacing=2), 1), self._buttons)
        self.keep_side(24)

    def keep_side(self, side: int) -> None:
        """Leave so many logical pixels left and right."""
        self._row.setContentsMargins(side, 12, side, 14)

    def show_change(self, change: str, now: str) -> None:
        """Say what would change, and what runs."""
        say(self.change, unbroken(change))
        say(self.now, unbroken(now))
        self.setAccessibleDescription("\n".join(text for text in (change, now) if text))

    def offer(self, *, apply: str = "", now: bool = False, undo: bool = False) -> None:
        """Show these buttons; `apply` is what the main one says, empty without it."""
        self.apply_button.setText(apply or tr("Apply"))
        self.apply_button.setVisible(bool(apply))
        self.now_button.setVisible(now)
        self.undo_button.setVisible(undo)
        self.cancel_button.hide()
        self._fit()

    def offer_cancel(self) -> None:
        """Offer to call off the load under way."""
        self.offer()
        self.cancel_button.show()
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Side by side or one above the other."""
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        direction, margins = QBoxLayout.Direction, self._row.contentsMargins()
        left = self.width() - margins.left() - margins.right() - self._buttons.sizeHint().width()
        beside = left >= scaled(_ROOM_FOR_WORDS)
        self._row.setDirection(direction.LeftToRight if beside else direction.TopToBottom)
        self._row.setSpacing(16 if beside else 10)
        aside = Qt.AlignmentFlag(0) if beside else Qt.AlignmentFlag.AlignLeft
        self._row.setAlignment(self._buttons, aside)

    def _button(self, words: str, asked: SignalInstance) -> QPushButton:
        button = text_button(words, self)
        button.clicked.connect(asked)
        button.hide()
        return button
