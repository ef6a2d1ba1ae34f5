"""A radio button that is seen when the keyboard comes to it."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QFocusEvent
from PySide6.QtWidgets import QRadioButton, QScrollArea

_KEYS = (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason)
"""Reasons that arrows give as well as Tab."""


class RadioButton(QRadioButton):
    """Brings the widget that it lies in into view when arrows go to it.

    An area that scrolls does so by itself for Tab only.
    """

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        """Come into view with what is said beside and below it."""
        super().focusInEvent(event)
        row = around = self.parentWidget()
        if row is None or event.reason() not in _KEYS:
            return
        while around is not None:
            if isinstance(around, QScrollArea):
                around.ensureWidgetVisible(row)
            around = around.parentWidget()
