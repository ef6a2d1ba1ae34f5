"""Escape, which stops an answer unless the widget with the keyboard has a use for it."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QKeyEvent


def claims_escape(event: QEvent) -> bool:
    """Claim Escape for the widget that got this event; return False for every other event."""
    if (
        isinstance(event, QKeyEvent)
        and event.type() is QEvent.Type.ShortcutOverride
        and event.key() == Qt.Key.Key_Escape
    ):
        event.accept()
        return True
    return False
