"""Painting of the rows in the left area: a background, one line of text, three dots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from PySide6.QtCore import QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QFont, QFontMetricsF, QPainter, QPen, QPixmap, QTextOption
from PySide6.QtWidgets import QAbstractItemView, QStyle, QStyleOptionViewItem

from app.theme.theme import current
from app.theme.tokens import RADIUS

MORE = 26
"""Side of the square with the three dots at the end of a row."""


@dataclass(frozen=True, slots=True)
class RowState:
    """Area of a row, and what mouse and keyboard are doing with it."""

    area: QRect
    hovered: bool
    selected: bool
    focused: bool

    @classmethod
    def of(cls, option: QStyleOptionViewItem, view: QAbstractItemView) -> Self:
        """Return the state that Qt has given to a delegate."""
        told: Any = option  # the stubs know nothing of its fields
        state = told.state
        return cls(
            told.rect,
            bool(state & QStyle.StateFlag.State_MouseOver),
            bool(state & QStyle.StateFlag.State_Selected),
            bool(state & QStyle.StateFlag.State_HasFocus) and view.hasFocus(),
        )

    def draw_background(self, painter: QPainter) -> None:
        """The usual colours of a row that is chosen, under the mouse, under the keyboard."""
        tokens = current()
        colour = tokens.selected if self.selected else tokens.hover if self.hovered else ""
        if colour or self.focused:
            draw_background(painter, self.area, colour, tokens.accent if self.focused else "")


def draw_background(painter: QPainter, area: QRect, colour: str, ring: str = "") -> None:
    """Draw a rounded background, with a ring where the keyboard is."""
    painter.setPen(QPen(QColor(ring), 2) if ring else Qt.PenStyle.NoPen)
    painter.setBrush(QColor(colour) if colour else QBrush())
    room = QRectF(area).adjusted(1, 1, -1, -1)
    painter.drawRoundedRect(room, RADIUS, RADIUS)


def draw_line(painter: QPainter, area: QRectF, text: str, font: QFont, colour: str) -> None:
    """Draw one line, shortened at its end; text that is written from the right begins there."""
    option = QTextOption(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
    option.setWrapMode(QTextOption.WrapMode.NoWrap)
    option.setTextDirection(Qt.LayoutDirection.LayoutDirectionAuto)
    painter.setFont(font)
    painter.setPen(QColor(colour))
    painter.drawText(area, shortened(text, font, area.width()), option)


def shortened(text: str, font: QFont, width: float) -> str:
    """`text`, with an ellipsis where it does not fit."""
    return QFontMetricsF(font).elidedText(text, Qt.TextElideMode.ElideRight, width)


def more_area(area: QRect) -> QRect:
    """Return where the three dots are in a row."""
    top = area.top() + (area.height() - MORE) // 2
    return QRect(area.right() - MORE - 2, top, MORE, MORE)


def draw_more(painter: QPainter, area: QRect, *, over: bool) -> None:
    """The three dots that open the menu of a row, with the mouse over them or not."""
    tokens = current()
    painter.setPen(Qt.PenStyle.NoPen)
    if over:
        painter.setBrush(QColor(tokens.border))
        painter.drawRoundedRect(QRectF(area), 6, 6)
    painter.setBrush(QColor(tokens.text if over else tokens.muted))
    middle = QRectF(area).center()
    for step in (-5, 0, 5):
        painter.drawEllipse(middle + QPointF(step, 0), 1.5, 1.5)


def drag_label(text: str, font: QFont, scale: float) -> QPixmap:
    """Return the picture that hangs on the mouse while conversations are dragged."""
    tokens = current()
    shown = shortened(text, font, 200)
    metrics = QFontMetricsF(font)
    room = QRect(0, 0, int(metrics.horizontalAdvance(shown)) + 26, int(metrics.height()) + 12)
    label = QPixmap(room.size() * scale)
    label.setDevicePixelRatio(scale)
    label.fill(Qt.GlobalColor.transparent)
    painter = QPainter(label)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    draw_background(painter, room, tokens.surface, tokens.accent)
    draw_line(painter, QRectF(room).adjusted(12, 0, -8, 0), shown, font, tokens.text)
    painter.end()
    return label
