"""Fields for numbers that look like every other field, without arrows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QAbstractSpinBox, QDoubleSpinBox, QSpinBox, QWidget

_PAD = 7
if TYPE_CHECKING:
    _Beside = QAbstractSpinBox
else:  # Qt allows for one base of its own
    _Beside = object


class _Calm(_Beside):
    """The wheel scrolls the page unless the field is in use."""

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """Turn the number only where the keyboard is."""
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()


class WholeBox(_Calm, QSpinBox):
    """A whole number."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        _as_field(self)


class RealBox(_Calm, QDoubleSpinBox):
    """A number with two decimals."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        _as_field(self)


def _as_field(box: QAbstractSpinBox) -> None:
    """Keep the text off the edge: the style sheet's padding is for the height only.

    The arrows stay and get no width there: told to have none, Qt gives the text no width either.
    """
    box.lineEdit().setTextMargins(_PAD, 0, _PAD, 0)
    box.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
