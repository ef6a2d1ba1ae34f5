"""A painted widget of the panel: it looks at what all of them look at together."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QWidget

from app.performance.sight import Sight
from app.widgets.painted import SIDE, Painted, blend, ground, hatch

__all__ = ["SIDE", "PaintedView", "blend", "ground", "hatch"]


class PaintedView(Painted):
    """Shows the stretch of time that is in sight, and the cursor in it."""

    def __init__(self, name: str, sight: Sight, parent: QWidget | None = None) -> None:
        self.sight = sight
        super().__init__(name, parent)

    def event(self, event: QEvent) -> bool:
        """Escape takes the cursor away before it stops an answer."""
        if (
            isinstance(event, QKeyEvent)
            and event.type() is QEvent.Type.ShortcutOverride
            and event.key() == Qt.Key.Key_Escape
            and self.sight.cursor is not None
        ):
            event.accept()
            return True
        return super().event(event)
