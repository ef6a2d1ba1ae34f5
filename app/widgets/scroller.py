"""An area that scrolls up and down."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QScrollArea, QWidget


def scroller(inside: QWidget, parent: QWidget) -> QScrollArea:
    """Return an area without a frame, as wide as it is given room, with `inside` in it.

    The keyboard passes it by; the ground of what it lies on shows through.
    """
    area = QScrollArea(parent, widgetResizable=True)
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    area.setWidget(inside)
    inside.setAutoFillBackground(False)
    area.viewport().setAutoFillBackground(False)
    return area
