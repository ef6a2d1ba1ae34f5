"""A list whose rows are equally high, so that nothing is ever laid out: a place is a product."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import (
    QEvent,
    QItemSelection,
    QItemSelectionModel,
    QModelIndex,
    QPersistentModelIndex,
    QPoint,
    QRect,
    Qt,
)
from PySide6.QtGui import QMouseEvent, QPainter, QPaintEvent, QRegion
from PySide6.QtWidgets import (
    QAbstractItemView,
    QListView,
    QStyle,
    QStyleOptionViewItem,
    QWidget,
)

Index = QModelIndex | QPersistentModelIndex
_Action = QAbstractItemView.CursorAction
_Hint = QAbstractItemView.ScrollHint
_ANYWHERE = _Hint.EnsureVisible


class UniformList(QListView):
    """A `QListView` that does not walk through all rows after every change.

    The first row's size hint is every row's height.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._hovered = -1
        self.setUniformItemSizes(True)
        self.setMouseTracking(True)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)

    @property
    def row_height(self) -> int:
        """The height of every row, in logical pixels."""
        return max(self.sizeHintForRow(0), 1)

    # -- where rows are --------------------------------------------------------------------

    def doItemsLayout(self) -> None:  # noqa: N802
        """Fit the scroll bar: there is nothing else to lay out."""
        QAbstractItemView.doItemsLayout(self)

    def updateGeometries(self) -> None:  # noqa: N802
        """Fit the scroll bar to the number of rows."""
        height, bar = self.viewport().height(), self.verticalScrollBar()
        bar.setSingleStep(self.row_height)
        bar.setPageStep(height)
        bar.setRange(0, max(self._rows() * self.row_height - height, 0))
        QAbstractItemView.updateGeometries(self)

    def visualRect(self, index: Index) -> QRect:  # noqa: N802
        """Return where a row is in the viewport."""
        if not index.isValid():
            return QRect()
        height = self.row_height
        top = index.row() * height - self.verticalOffset()
        return QRect(0, top, self.viewport().width(), height)

    def indexAt(self, point: QPoint) -> QModelIndex:  # noqa: N802
        """The row at a place in the viewport."""
        row = (point.y() + self.verticalOffset()) // self.row_height
        return self.model().index(row, 0) if 0 <= row < self._rows() else QModelIndex()

    def verticalOffset(self) -> int:  # noqa: N802
        """Return how far the rows are scrolled, in pixels."""
        return self.verticalScrollBar().value()

    def scrollTo(self, index: Index, hint: QAbstractItemView.ScrollHint = _ANYWHERE) -> None:  # noqa: N802
        """Bring a row into view."""
        if not index.isValid():
            return
        self.executeDelayedItemsLayout()
        bar, room = self.verticalScrollBar(), self.viewport().height() - self.row_height
        top = index.row() * self.row_height
        if hint == _Hint.PositionAtTop or (hint == _ANYWHERE and top < bar.value()):
            bar.setValue(top)
        elif hint == _Hint.PositionAtBottom or (hint == _ANYWHERE and top > bar.value() + room):
            bar.setValue(top - room)

    # -- keys and choosing -----------------------------------------------------------------

    def moveCursor(  # noqa: N802
        self, action: QAbstractItemView.CursorAction, _modifiers: Qt.KeyboardModifier
    ) -> QModelIndex:
        """The next row in a direction that can be reached."""
        last, row = self._rows() - 1, self.currentIndex().row()
        page = max(self.viewport().height() // self.row_height - 1, 1)
        start, step = {
            _Action.MoveUp: (row - 1, -1),
            _Action.MovePrevious: (row - 1, -1),
            _Action.MoveDown: (row + 1, 1),
            _Action.MoveNext: (row + 1, 1),
            _Action.MoveHome: (0, 1),
            _Action.MoveEnd: (last, -1),
            _Action.MovePageUp: (max(row - page, 0), 1 if row <= page else -1),
            _Action.MovePageDown: (min(row + page, last), -1 if row + page >= last else 1),
        }.get(action, (row, 1))
        while 0 <= start <= last:
            index = self.model().index(start, 0)
            if self.model().flags(index) & Qt.ItemFlag.ItemIsEnabled:
                return index
            start += step
        return self.currentIndex()

    def setSelection(  # noqa: N802
        self, rect: QRect, command: QItemSelectionModel.SelectionFlag
    ) -> None:
        """Choose the rows that `rect` reaches into."""
        first, last = self._range(rect.normalized())
        rows = QItemSelection()
        if first <= last:
            rows.select(self.model().index(first, 0), self.model().index(last, 0))
        self.selectionModel().select(rows, command)

    def visualRegionForSelection(self, selection: QItemSelection) -> QRegion:  # noqa: N802
        """Return the region to paint anew when these rows are chosen or no longer."""
        height, offset, region = self.row_height, self.verticalOffset(), QRegion()
        for each in selection.toList():
            rows = each.bottom() - each.top() + 1
            place = QRect(0, each.top() * height - offset, self.viewport().width(), rows * height)
            region += place & self.viewport().rect()
        return region

    # -- painting --------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Draw the rows in sight."""
        painter, option = QPainter(self.viewport()), QStyleOptionViewItem()
        self.initViewItemOption(option)
        told: Any = option  # the stubs know nothing of its fields
        plain, selection, current = told.state, self.selectionModel(), self.currentIndex().row()
        first, last = self._range(event.rect())
        for row in range(first, last + 1):
            index = self.model().index(row, 0)
            told.rect, state = self.visualRect(index), plain
            if selection.isSelected(index):
                state |= QStyle.StateFlag.State_Selected
            if row == self._hovered:
                state |= QStyle.StateFlag.State_MouseOver
            if row == current and self.hasFocus():
                state |= QStyle.StateFlag.State_HasFocus
            told.state = state
            self.itemDelegate().paint(painter, option, index)
        painter.end()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """The row under the mouse looks different."""
        self._hover(self.indexAt(event.position().toPoint()).row())
        super().mouseMoveEvent(event)

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        """Forget the row under the mouse."""
        self._hover(-1)
        super().leaveEvent(event)

    def _hover(self, row: int) -> None:
        for each in {row, self._hovered} - {-1}:
            self.viewport().update(self.visualRect(self.model().index(each, 0)))
        self._hovered = row

    def _range(self, area: QRect) -> tuple[int, int]:
        """First and last row in a part of the viewport."""
        height, offset = self.row_height, self.verticalOffset()
        first = max((area.top() + offset) // height, 0)
        return first, min((area.bottom() + offset) // height, self._rows() - 1)

    def _rows(self) -> int:
        return self.model().rowCount() if self.model() is not None else 0
