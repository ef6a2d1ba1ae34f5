"""A line across the column with a few words in it."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.theme.fonts import keep_font, sized
from app.theme.theme import current

_AIR = 12


class Divider(QWidget):
    """Parts what is above from what is below it."""

    def __init__(self, words: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.words = words
        self.setAccessibleName(words)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        keep_font(self, partial(sized, 0.92))

    @property
    def needed(self) -> int:
        """Return the height it needs."""
        return self.fontMetrics().height() + 2 * _AIR

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """Line, words, line."""
        metrics, tokens = self.fontMetrics(), current()
        room = self.width() - 4 * _AIR
        words = metrics.elidedText(self.words, Qt.TextElideMode.ElideRight, room)
        wide = metrics.horizontalAdvance(words) + 2 * _AIR
        left, middle = (self.width() - wide) // 2, self.height() // 2
        painter = QPainter(self)
        painter.setPen(QColor(tokens.border_strong))
        painter.drawLine(0, middle, left, middle)
        painter.drawLine(left + wide, middle, self.width(), middle)
        painter.setPen(QColor(tokens.muted))
        painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, words)
