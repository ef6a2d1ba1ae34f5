"""A field for words to look for, above a list of what is found."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QLineEdit

from app.widgets.escape import claims_escape


class SearchField(QLineEdit):
    """Words to look for. Down goes to the results, Enter opens the first, Escape clears."""

    down_asked = Signal()
    open_asked = Signal()

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
