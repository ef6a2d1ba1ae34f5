"""Paints a device's memory as a bar of parts, each with a colour and a pattern of its own."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPen

from app.theme.theme import current
from app.theme.tokens import Tokens
from app.tuning.budget.parts import Part, Stack

SWATCH = 11
"""Side of the square before a name in a legend."""
_FAINT = 46
"""Opacity, of 255, of the colour below a pattern."""
_Pattern = Qt.BrushStyle
_PATTERNS = {
    Part.TARGET: _Pattern.SolidPattern,
    Part.DRAFT: _Pattern.BDiagPattern,
    Part.KEPT: _Pattern.VerPattern,
    Part.WORK: _Pattern.Dense5Pattern,
    Part.RUNTIME: _Pattern.HorPattern,
    Part.FREE: _Pattern.NoBrush,
    Part.RESERVE: _Pattern.FDiagPattern,
    Part.OTHERS: _Pattern.DiagCrossPattern,
}


def colour_of(part: Part, tokens: Tokens) -> QColor:
    """The colour of a part; its pattern tells it from others too."""
    names = {
        Part.TARGET: tokens.verify,
        Part.DRAFT: tokens.draft,
        Part.KEPT: tokens.memory_kept,
        Part.WORK: tokens.memory_work,
        Part.RUNTIME: tokens.memory_runtime,
        Part.FREE: tokens.border_strong,
        Part.RESERVE: tokens.border_strong,
        Part.OTHERS: tokens.muted,
    }
    return QColor(names[part])


def paint_part(painter: QPainter, area: QRectF, part: Part) -> None:
    """Fill an area with the look of a part; also the swatch of a legend."""
    tokens = current()
    colour, pattern = colour_of(part, tokens), _PATTERNS[part]
    painter.fillRect(area, QColor(tokens.sunken))
    if pattern is _Pattern.SolidPattern:
        painter.fillRect(area, colour)
        return
    if pattern is not _Pattern.NoBrush:
        faint = QColor(colour)
        faint.setAlpha(_FAINT)
        painter.fillRect(area, faint)
        painter.fillRect(area, QBrush(colour, pattern))
    if area.width() > 2:
        painter.setPen(QPen(colour, 1))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(area.adjusted(0.5, 0.5, -0.5, -0.5))


def paint_stack(painter: QPainter, area: QRectF, stack: Stack) -> None:
    """Paint all parts from the left to the right; a part of less than a pixel is left out."""
    for segment, left, right in stack.edges(area.width()):
        if right > left:
            part = QRectF(area.left() + left, area.top(), right - left, area.height())
            paint_part(painter, part, segment.part)
