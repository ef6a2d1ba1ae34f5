"""Painting of a row: two lines, and a badge at the end of one of them."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QEvent, QRect, QRectF, QSize
from PySide6.QtGui import QFont, QFontMetricsF, QHelpEvent, QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QToolTip,
)

from app.models.badge import badge_size, draw_badge
from app.models.row_model import Index, ModelRow, RowListModel
from app.theme.theme import current
from app.widgets import painting
from app.widgets.painting import draw_line

_SIDE = 12
_TOP = 8
_GAP = 3
_MOST_OF_ROW = 0.5
"""A badge that takes more of the first line leaves it to a title that would be cut."""


class RowDelegate(QStyledItemDelegate):
    """Draws rows, all of them equally high."""

    def __init__(self, model: RowListModel[Any], view: QAbstractItemView) -> None:
        super().__init__(view)
        self._model, self._view = model, view

    def sizeHint(self, _option: QStyleOptionViewItem, _index: Index) -> QSize:  # noqa: N802
        """Return the size of two lines with room around them."""
        lines = self._view.fontMetrics().height() + QFontMetricsF(self._small).height()
        return QSize(80, round(lines) + 2 * _TOP + _GAP)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw a row."""
        row, place = self._model.row(index), painting.RowState.of(option, self._view)
        if row is None:
            return
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if row.heading:
            self._heading(painter, place.area, row)
        else:
            place.draw_background(painter)
            self._entry(painter, place.area, row)
        painter.restore()

    def helpEvent(  # noqa: N802
        self,
        event: QHelpEvent,
        view: QAbstractItemView,
        option: QStyleOptionViewItem,
        index: Index,
    ) -> bool:
        """Show a tooltip: the reason of the badge, or what the row had no room for."""
        row = self._model.row(index)
        if event.type() is not QEvent.Type.ToolTip or row is None:
            return bool(super().helpEvent(event, view, option, index))
        area = painting.RowState.of(option, self._view).area
        if row.mark is not None and self._badge_area(area, row).contains(event.pos()):
            text = row.mark.tip or row.mark.text
        else:
            text = row.tip or "\n".join(part for part in (row.title, row.about) if part)
        QToolTip.showText(event.globalPos(), text, view)
        return True

    def _heading(self, painter: QPainter, area: QRect, row: ModelRow) -> None:
        tokens, height = current(), QFontMetricsF(self._small).height()
        room = QRectF(area).adjusted(_SIDE, 0, -_SIDE, -2)
        first, second = QRectF(room), QRectF(room)
        second.setTop(room.bottom() - height)
        first.setBottom(second.top() if row.about else room.bottom())
        first.setTop(first.bottom() - self._view.fontMetrics().height())
        draw_line(painter, first, row.title, self._bold, tokens.text)
        draw_line(painter, second, row.about, self._small, tokens.muted)

    def _entry(self, painter: QPainter, area: QRect, row: ModelRow) -> None:
        tokens = current()
        first = QRectF(area).adjusted(_SIDE, _TOP, -_SIDE, 0)
        first.setHeight(self._view.fontMetrics().height())
        second = QRectF(first)
        second.moveTop(first.bottom() + _GAP)
        second.setHeight(QFontMetricsF(self._small).height())
        if row.mark is not None:
            badge = self._badge_area(area, row)
            draw_badge(painter, badge, row.mark, self._small)
            beside = first if badge.top() < first.bottom() else second
            beside.setRight(badge.left() - _SIDE)
        draw_line(painter, first, row.title, self._view.font(), tokens.text)
        draw_line(painter, second, row.about, self._small, tokens.muted)

    def _badge_area(self, area: QRect, row: ModelRow) -> QRectF:
        """Return where the badge is: beside the title, or below where one of them would be cut."""
        if row.mark is None:
            return QRectF()
        size, room = badge_size(row.mark, self._small), area.width() - 2 * _SIDE
        metrics = QFontMetricsF(self._view.font())
        width = min(size.width(), room)
        wanted = metrics.horizontalAdvance(row.title) + _SIDE + width
        middle = area.top() + _TOP + self._view.fontMetrics().height() / 2
        if wanted > room and width > room * _MOST_OF_ROW:
            middle += (metrics.height() + QFontMetricsF(self._small).height()) / 2 + _GAP
        top = middle - size.height() / 2
        return QRectF(area.right() - _SIDE - width, top, width, size.height())

    @property
    def _small(self) -> QFont:
        font = QFont(self._view.font())
        font.setPointSizeF(font.pointSizeF() * 0.92)
        return font

    @property
    def _bold(self) -> QFont:
        font = QFont(self._view.font())
        font.setWeight(QFont.Weight.DemiBold)
        return font
