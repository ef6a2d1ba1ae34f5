"""Places for popups, within the window that they belong to."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QRect
from PySide6.QtWidgets import QWidget

from app.theme.fonts import scaled

_NEAR = 8
"""Distance from the edges."""
_LOWEST = 360
"""A window with less room than that lets its popups out, up to the edges of the screen."""


def place_popup(popup: QWidget, corner: QPoint, wanted: int, *, above: bool) -> None:
    """Give a popup its height and place.

    Args:
        popup: has its width already.
        corner: on the screen: the lower left one if it opens `above`, else the upper right one.
        wanted: height that its content takes.
        above: whether it lies above the corner.
    """
    screen = popup.screen().availableGeometry()
    owner = popup.parentWidget()
    room = screen
    if owner is not None:
        window = owner.window()
        room = screen & QRect(window.mapToGlobal(QPoint(0, 0)), window.size())
    room.adjust(_NEAR, _NEAR, -_NEAR, -_NEAR)
    space = corner.y() - room.top() if above else room.bottom() - corner.y()
    if space < min(wanted, scaled(_LOWEST)):
        room = screen.adjusted(_NEAR, _NEAR, -_NEAR, -_NEAR)
    if above:
        height = min(wanted, room.height())
        top = max(corner.y() - height, room.top())
        left = corner.x()
    else:
        height = min(wanted, room.bottom() - corner.y())
        top, left = corner.y(), corner.x() - popup.width()
    popup.setFixedHeight(height)
    popup.move(max(min(left, room.right() - popup.width()), room.left()), top)
