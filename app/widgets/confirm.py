"""Asks before something is gone for good."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMessageBox, QWidget


def confirm(
    parent: QWidget, question: str, remark: str, action: str, then: Callable[[], None]
) -> QMessageBox:
    """Ask, and call `then` only where the user presses the button `action`; Enter cancels."""
    box = QMessageBox(parent, textFormat=Qt.TextFormat.PlainText, informativeText=remark)
    box.setWindowTitle("Duotail")
    box.setIcon(QMessageBox.Icon.Warning)
    box.setText(question)
    does = box.addButton(action, QMessageBox.ButtonRole.DestructiveRole)
    does.setProperty("look", "danger")
    does.clicked.connect(then)
    box.setDefaultButton(box.addButton(QMessageBox.StandardButton.Cancel))
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    box.open()
    return box
