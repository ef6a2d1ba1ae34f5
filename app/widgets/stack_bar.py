"""Paints a device's memory as a bar of parts, each with a colour and a pattern of its own."""

from __future__ import annotations

from functools import lru_cache

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPen

from app.theme.theme import current
from app.theme.tokens import Tokens
from app.widgets.memory_parts import MemoryPart, Stack

_FRAMED = 2
"""Pixels: what is narrower has no frame."""
_FAINT = 46
"""Opacity, of 255, of the colour below a pattern."""
_Pattern = Qt.BrushStyle
_PATTERNS = {
    MemoryPart.TARGET: _Pattern.SolidPattern,
    MemoryPart.DRAFT: _Pattern.BDiagPattern,
    MemoryPart.KEPT: _Pattern.VerPattern,
    MemoryPart.WORK: _Pattern.Dense5Pattern,
    MemoryPart.RUNTIME: _Pattern.HorPattern,
    MemoryPart.FREE: _Pattern.NoBrush,
    MemoryPart.RESERVE: _Pattern.FDiagPattern,
    MemoryPart.OTHERS: _Pattern.DiagCrossPattern,
}


def colour_of(part: MemoryPart, tokens: Tokens) -> QColor:
    """The colour of a part; its pattern tells it from others too."""
    names = {
        MemoryPart.TARGET: tokens.verify,
        MemoryPart.DRAFT: tokens.draft,
        MemoryPart.KEPT: tokens.memory_kept,
        MemoryPart.WORK: tokens.memory_work,
        MemoryPart.RUNTIME: tokens.memory_runtime,
        MemoryPart.FREE: tokens.border_strong,
        MemoryPart.RESERVE: tokens.border_strong,
        MemoryPart.OTHERS: tokens.muted,
    }
    return QColor(names[part])


@lru_cache(maxsize=64)
def _tools(part: MemoryPart, tokens: Tokens) -> tuple[QPen, tuple[QBrush, ...]]:
    """The frame, and what fills the part, one over the other."""
    colour, pattern = colour_of(part, tokens), _PATTERNS[part]
    sunken, pen = QBrush(QColor(tokens.sunken)), QPen(colour, 1)
    if pattern is _Pattern.NoBrush:
        return pen, (sunken,)
    if pattern is _Pattern.SolidPattern:
        return pen, (QBrush(colour),)
    faint = QColor(colour)
    faint.setAlpha(_FAINT)
    return pen, (sunken, QBrush(faint), QBrush(colour, pattern))


def paint_part(painter: QPainter, area: QRectF, part: MemoryPart) -> None:
    """Fill an area with the look of a part; also the swatch of a legend."""
    pen, brushes = _tools(part, current())
    for brush in brushes:
        painter.fillRect(area, brush)
    if area.width() > _FRAMED:
        painter.setPen(pen)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(area.adjusted(0.5, 0.5, -0.5, -0.5))


def paint_stack(painter: QPainter, area: QRectF, stack: Stack) -> None:
    """Paint all parts from the left to the right; a part of less than a pixel is left out."""
    for segment, left, right in stack.edges(area.width()):
        if right > left:
            part = QRectF(area.left() + left, area.top(), right - left, area.height())
            paint_part(painter, part, segment.part)
