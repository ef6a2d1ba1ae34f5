"""A layout that breaks its row where the width ends, like words in a line."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtWidgets import QLayout, QLayoutItem, QWidget


class FlowLayout(QLayout):
    """Items from left to right, line below line."""

    def __init__(self, *widgets: QWidget, to: QWidget | None = None, spacing: int = 6) -> None:
        super().__init__(to)
        self.setContentsMargins(0, 0, 0, 0)
        self.setSpacing(spacing)
        self._items: list[QLayoutItem] = []
        for widget in widgets:
            self.addWidget(widget)

    def addItem(self, item: QLayoutItem) -> None:  # noqa: N802
        """Append an item."""
        self._items.append(item)

    def count(self) -> int:
        """Return the number of items."""
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:  # noqa: N802
        """The item at a place; None behind the last."""
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:  # noqa: N802
        """Give an item away; None behind the last."""
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def expandingDirections(self) -> Qt.Orientation:  # noqa: N802
        """Return no direction: it asks for no more than it needs."""
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:  # noqa: N802
        """Return True, as a narrower layout is higher."""
        return True

    def heightForWidth(self, width: int) -> int:  # noqa: N802
        """The height that all lines take."""
        return self._arrange(QRect(0, 0, width, 0), move=False)

    def setGeometry(self, rect: QRect) -> None:  # noqa: N802
        """Put every item in its place."""
        super().setGeometry(rect)
        self._arrange(rect, move=True)

    def sizeHint(self) -> QSize:  # noqa: N802
        """The size of the largest item: the width is up to the surroundings."""
        return self.minimumSize()

    def minimumSize(self) -> QSize:  # noqa: N802
        """The size of the largest item."""
        size = QSize()
        for item in self._items:
            size = size.expandedTo(item.minimumSize())
        return size

    def _arrange(self, rect: QRect, *, move: bool) -> int:
        """The height of all lines within `rect`."""
        x, y, line = 0, 0, 0
        mirrored = rect.width() if self._right_to_left() else 0
        for item in self._items:
            widget = item.widget()
            if widget is not None and widget.isHidden():
                continue
            size = item.sizeHint().boundedTo(QSize(rect.width(), 10_000))
            if x > 0 and x + size.width() > rect.width():
                x, y, line = 0, y + line + self.spacing(), 0
            if move:
                left = mirrored - x - size.width() if mirrored else x
                item.setGeometry(QRect(rect.topLeft() + QPoint(left, y), size))
            x += size.width() + self.spacing()
            line = max(line, size.height())
        return y + line

    def _right_to_left(self) -> bool:
        parent = self.parentWidget()
        return parent is not None and parent.isRightToLeft()
