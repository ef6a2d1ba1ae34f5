"""Enter on a button, which Qt leaves to Space on most desktops."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QApplication, QPushButton, QToolButton
from shiboken6 import isValid


def enter_presses(event: QKeyEvent) -> bool:
    """Press the focused button, as Space would, if the key is Enter; return whether it did.

    Windows and panels call it with the keys that no widget in them has taken.
    """
    button = QApplication.focusWidget()
    entered = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
    bare = not event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
    if not (entered and bare and isinstance(button, QPushButton | QToolButton)):
        return False
    if not event.isAutoRepeat():
        for kind in (QEvent.Type.KeyPress, QEvent.Type.KeyRelease):
            if isValid(button):  # what it opens may take it away
                space = QKeyEvent(kind, Qt.Key.Key_Space, Qt.KeyboardModifier.NoModifier)
                QApplication.sendEvent(button, space)
    return True
