"""A field for words to look for, above a list of what is found."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QRect, Qt, Signal
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QLineEdit, QWidget

from app.theme.fonts import keep_sized, scaled
from app.theme.icons import icon
from app.theme.theme import current
from app.widgets.escape import claims_escape

_ICON = 16
_LEFT = 9


class SearchField(QLineEdit):
    """Words to look for. Down goes to the results, Enter opens the first, Escape clears."""

    down_asked = Signal()
    open_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        keep_sized(self, lambda: self.setTextMargins(scaled(_ICON) + 4, 0, 0, 0))

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """The glass before the text: icons that Qt puts there do not grow with it."""
        super().paintEvent(event)
        side = scaled(_ICON)
        left = self.width() - _LEFT - side if self.isRightToLeft() else _LEFT
        place = QRect(left, (self.height() - side) // 2, side, side)
        painter = QPainter(self)
        icon("search", current().muted).paint(painter, place)
        painter.end()

    def event(self, event: QEvent) -> bool:
        """Escape is ours while there is something to clear, before it stops an answer."""
        return (bool(self.text()) and claims_escape(event)) or super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Handle the keys that do not edit the text."""
        if event.key() == Qt.Key.Key_Escape and self.text():
            self.clear()
        elif event.key() == Qt.Key.Key_Down:
            self.down_asked.emit()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.open_asked.emit()
        else:
            super().keyPressEvent(event)
