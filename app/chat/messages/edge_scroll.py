"""Selecting with the mouse beyond the edge of the view scrolls it."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QPointF, Qt, QTimer
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QAbstractScrollArea, QApplication, QWidget

_TICK_MS = 16
_SHARE = 4
"""Every tick scrolls one part in so many of the distance from the edge."""


class EdgeScroll(QObject):
    """Watches the texts in a view; `watch` each of them."""

    def __init__(self, view: QAbstractScrollArea) -> None:
        super().__init__(view)
        self._view = view
        self._pressed: QWidget | None = None
        self._at = QPointF()
        self._timer = QTimer(self, interval=_TICK_MS)
        self._timer.timeout.connect(self._scroll)

    def watch(self, surface: QWidget) -> None:
        """Take part in what the mouse does on `surface`, the viewport of a text."""
        surface.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Keep the view moving while a drag is outside of it."""
        if isinstance(event, QMouseEvent) and isinstance(watched, QWidget):
            if (
                event.type() is QEvent.Type.MouseMove
                and event.buttons() & Qt.MouseButton.LeftButton
            ):
                self._pressed, self._at = watched, event.globalPosition()
                if self._beyond():
                    self._timer.start()
            elif event.type() is QEvent.Type.MouseButtonRelease:
                self._timer.stop()
                self._pressed = None
        return False

    def _beyond(self) -> int:
        """Return how far below the view the mouse is, in pixels; negative above it."""
        y = self._view.viewport().mapFromGlobal(self._at).y()
        height = self._view.viewport().height()
        return round(y) if y < 0 else round(max(y - height, 0))

    def _scroll(self) -> None:
        surface, far = self._pressed, self._beyond()
        if surface is None or not far:
            self._timer.stop()
            return
        bar = self._view.verticalScrollBar()
        bar.setValue(bar.value() + far // _SHARE + (1 if far > 0 else 0))
        # The text under the mouse is another one now: it selects as far as there.
        moved = QMouseEvent(
            QEvent.Type.MouseMove,
            surface.mapFromGlobal(self._at),
            self._at,
            Qt.MouseButton.NoButton,
            Qt.MouseButton.LeftButton,
            QApplication.keyboardModifiers(),
        )
        QApplication.sendEvent(surface, moved)
