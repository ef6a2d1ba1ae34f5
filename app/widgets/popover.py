"""Popups above what opens them, and their places within the window that they belong to."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QWidget

from app.theme.fonts import scaled
from app.widgets.boxes import vbox
from app.widgets.enter import enter_presses
from app.widgets.scroller import scroller

_MARGIN = 1
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


class Popover(QFrame):
    """A popup as high as its content in `inside`; where the window ends, it scrolls."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent, Qt.WindowType.Popup | Qt.WindowType.FramelessWindowHint)
        self.setProperty("look", "notice")
        self.inside = QWidget(self)
        vbox(scroller(self.inside, self), to=self, margins=_MARGIN)
        self._anchor: QPoint | None = None

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Enter presses a button."""
        if not enter_presses(event):
            super().keyPressEvent(event)

    def open_above(self, place: QPoint) -> None:
        """Open with the lower left corner at `place`, in screen coordinates."""
        self._anchor = place
        self.fit()
        self.show()
        self.fit()  # once shown, it has its fonts

    def fit(self) -> None:
        """Take the height of the content, as far as the window goes."""
        self.inside.ensurePolished()
        layout = self.inside.layout()
        assert layout is not None  # noqa: S101 - told to the type checker
        frame = 2 * (self.frameWidth() + _MARGIN)
        wanted = layout.totalHeightForWidth(self.width() - frame) + frame
        corner = self._anchor or self.pos() + QPoint(0, self.height())
        place_popup(self, corner, wanted, above=True)
