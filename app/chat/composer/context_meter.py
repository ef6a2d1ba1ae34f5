"""Meter of the context, in words over a thin bar."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from math import inf

from PySide6.QtCore import QRectF, QSize, Qt, QTimer
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.theme.fonts import keep_font, sized
from app.theme.theme import current
from engine.language import number, tr

_BAR = 3
_EVERY_S = 0.5
_TIGHT = 0.9
"""Share of the context from which on there is little room for an answer."""


@dataclass(frozen=True, slots=True)
class Fill:
    """Tokens of the conversation with what is typed, and how many the context holds."""

    used: int
    context: int

    @property
    def fits(self) -> bool:
        """True if there is room for at least one token of an answer."""
        return self.used < self.context

    @property
    def excess(self) -> str:
        """Say how long the conversation would be, and what the context holds."""
        text = tr("The conversation would be {needed} tokens long, the context holds {context}.")
        return text.format(needed=number(self.used), context=number(self.context))

    @property
    def percent(self) -> str:
        """Return the used share of the context in few letters."""
        return number(self.used / self.context, ".0%") if self.context else ""

    @property
    def tight(self) -> bool:
        """True if an answer has little room."""
        return self.used > self.context * _TIGHT


class ContextMeter(QWidget):
    """Shows a `Fill`; hidden while nothing is known."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.fill: Fill | None = None
        self._next: Fill | None = None
        self._shown_at = -inf
        self._soon = QTimer(self, singleShot=True)
        self._soon.timeout.connect(lambda: self.show_fill(self._next))
        keep_font(self, partial(sized, 0.92))
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(tr("Context"))
        self.show_fill(None)

    @property
    def text(self) -> str:
        """The fill in words."""
        if self.fill is None:
            return ""
        return self._words(self.fill.used, self.fill.context)

    @staticmethod
    def _words(used: int, context: int) -> str:
        return tr("{used} of {context} tokens").format(used=number(used), context=number(context))

    def show_fill(self, fill: Fill | None) -> None:
        """Show how full the context would be, or nothing."""
        self._soon.stop()
        if fill == self.fill and self.isHidden() == (fill is None):
            return
        before = self.sizeHint()
        self.fill = fill
        self.setVisible(fill is not None)
        self._shown_at = time.perf_counter()
        explained = self._explained()
        if explained != self.toolTip():
            self.setToolTip(explained)
        self.setAccessibleDescription(f"{self.text}. {explained}" if fill else "")
        if self.sizeHint() != before:
            self.updateGeometry()  # lays the whole page out
        self.update()

    def follow(self, fill: Fill) -> None:
        """Show it soon: while an answer is written every round brings another number.

        Where it is due it is shown at once, in one picture with the text that came along.
        """
        self._next = fill
        left = self._shown_at + _EVERY_S - time.perf_counter()
        if left <= 0:
            self.show_fill(fill)
        elif not self._soon.isActive():
            self._soon.start(int(1000 * (left + _EVERY_S)))

    def sizeHint(self) -> QSize:  # noqa: N802
        """Return the size of the widest text that can be shown."""
        metrics = self.fontMetrics()
        widest = 0 if self.fill is None else max(self.fill.used, self.fill.context)
        words = "" if self.fill is None else self._words(widest, self.fill.context)
        return QSize(metrics.horizontalAdvance(words) + 4, metrics.height() + _BAR + 4)

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """Words, and the bar below them."""
        fill = self.fill
        if fill is None:
            return
        tokens = current()
        role = "muted" if not fill.tight else "warning" if fill.fits else "danger"
        colour = QColor(str(getattr(tokens, role)))
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(colour)
        words = self.rect().adjusted(0, 0, 0, -_BAR - 3)
        room = self.fontMetrics().horizontalAdvance(self.text) <= words.width()
        painter.drawText(words, Qt.AlignmentFlag.AlignCenter, self.text if room else fill.percent)
        track = QRectF(1, self.height() - _BAR - 1, self.width() - 2, _BAR)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(tokens.border))
        painter.drawRoundedRect(track, _BAR / 2, _BAR / 2)
        share = min(fill.used / fill.context, 1.0) if fill.context else 1.0
        filled = QRectF(track)
        filled.setWidth(max(track.width() * share, float(_BAR) if fill.used else 0.0))
        if self.layoutDirection() is Qt.LayoutDirection.RightToLeft:
            filled.moveRight(track.right())
        painter.setBrush(QColor(tokens.accent) if not fill.tight else colour)
        painter.drawRoundedRect(filled, _BAR / 2, _BAR / 2)

    def _explained(self) -> str:
        fill = self.fill
        if fill is None:
            return ""
        if not fill.fits:
            return tr("The conversation no longer fits into this model's context.")
        if fill.tight:
            return tr("There is little room left for an answer.")
        return tr("What the model would read: the conversation and your message.")
