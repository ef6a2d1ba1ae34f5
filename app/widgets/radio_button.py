"""A radio button that scrolls into view when it gets the focus."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QFocusEvent
from PySide6.QtWidgets import QRadioButton, QScrollArea

_KEYS = (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason)
"""Reasons of a focus that Tab or an arrow key has moved."""


class RadioButton(QRadioButton):
    """Scrolls into view when Tab or an arrow key moves the focus to it.

    A scroll area does that by itself for Tab only.
    """

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        """Scroll into view, with the words beside and below it."""
        super().focusInEvent(event)
        row = around = self.parentWidget()
        if row is None or event.reason() not in _KEYS:
            return
        while around is not None:
            if isinstance(around, QScrollArea):
                around.ensureWidgetVisible(row)
            around = around.parentWidget()
