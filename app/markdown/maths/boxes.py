"""Parts of a formula that have been set: their extents, and what is drawn in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPainterPath


@dataclass(frozen=True, slots=True)
class Letters:
    """A text in a font."""

    text: str
    font: QFont


Mark = tuple[float, float, Letters | QRectF | QPainterPath]
"""Something drawn, moved by so many pixels to the right and downwards."""


@dataclass(frozen=True, slots=True)
class Box:
    """A part that has been set; pixels."""

    width: float = 0.0
    ascent: float = 0.0
    descent: float = 0.0
    marks: tuple[Mark, ...] = ()

    def at(self, x: float, y: float) -> Iterable[Mark]:
        """Yield what is in it, moved."""
        return ((x + left, y + top, mark) for left, top, mark in self.marks)

    def outline(self) -> QPainterPath:
        """Return all that is drawn as one shape; its line begins at 0, 0."""
        shape = QPainterPath()
        shape.setFillRule(Qt.FillRule.WindingFill)
        for left, top, mark in self.marks:
            if isinstance(mark, Letters):
                shape.addText(left, top, mark.font, mark.text)
            elif isinstance(mark, QRectF):
                shape.addRect(mark.translated(left, top))
            else:
                shape.addPath(mark.translated(left, top))
        return shape

    def paint(self, painter: QPainter, x: float, y: float, colour: QColor) -> None:
        """Draw it with the left end of its line at a place."""
        painter.setPen(colour)
        for left, top, mark in self.at(x, y):
            if isinstance(mark, Letters):
                painter.setFont(mark.font)
                painter.drawText(QPointF(left, top), mark.text)
            elif isinstance(mark, QRectF):
                painter.fillRect(mark.translated(left, top), colour)
            else:
                painter.fillPath(mark.translated(left, top), colour)


def beside(boxes: Sequence[Box]) -> Box:
    """Return boxes from left to right on one line."""
    marks: list[Mark] = []
    left = 0.0
    for box in boxes:
        marks += box.at(left, 0.0)
        left += box.width
    ascent = max((box.ascent for box in boxes), default=0.0)
    descent = max((box.descent for box in boxes), default=0.0)
    return Box(left, ascent, descent, tuple(marks))
