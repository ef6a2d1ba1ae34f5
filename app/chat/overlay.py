"""Paints tint, marks and search hits over a message's text without touching it.

All of it is painted on the lines as they were laid out. No text is shaped or laid out anew, so
that a token that ends within a letter, a ligature or an emoji tears nothing apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetricsF,
    QPainter,
    QPen,
    QTextBlock,
    QTextDocument,
    QTextLine,
)

from app.chat.source_map import SourceMap
from app.chat.tint import Ghost, Marks
from app.theme.theme import current

_BIDI = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]")
_GHOST_SIZE = 0.72
"""Size of refused text, of the text around it."""


class OverlayPainter:
    """Paints marks over one document."""

    def __init__(self, document: QTextDocument, marks: Marks) -> None:
        self._document = document
        self._marks = marks
        self._tips: list[tuple[QRectF, str]] = []

    def tip_at(self, point: QPointF) -> str:
        """The refused text painted at `point`, if any."""
        return next((text for rect, text in self._tips if rect.contains(point)), "")

    def paint(self, painter: QPainter, source: SourceMap, visible: QRectF) -> None:
        """Paint all that is in the `visible` part of the document."""
        marks = self._marks
        self._tips = []
        if not marks.any:
            return
        for block in visible_blocks(self._document, visible):
            origin = self._document.documentLayout().blockBoundingRect(block).topLeft()
            if marks.mark is not None:
                for start, end in _inside(block, source.shown(*marks.mark)):
                    self._paint_mark(painter, line_rects(block, origin, start, end))
            for start, end in marks.hits(block):
                self._paint_hit(painter, line_rects(block, origin, start, end))
            if marks.tinted:
                self._paint_tint(painter, source, block, origin)
            self._paint_ghosts(painter, source, block, origin)

    def _paint_mark(self, painter: QPainter, rects: Iterator[QRectF]) -> None:
        colour = QColor(current().accent)
        for rect in rects:
            painter.setPen(QPen(colour, 1))
            fill = QColor(colour)
            fill.setAlphaF(0.16)
            painter.setBrush(fill)
            painter.drawRoundedRect(rect.adjusted(-1.5, -0.5, 1.5, 0.5), 3, 3)

    def _paint_hit(self, painter: QPainter, rects: Iterator[QRectF]) -> None:
        fill = QColor(current().warning)
        fill.setAlphaF(0.28)
        for rect in rects:
            painter.fillRect(rect, fill)
            painter.fillRect(
                QRectF(rect.left(), rect.bottom() - 1.5, rect.width(), 1.5),
                QColor(current().warning),
            )

    def _paint_tint(
        self, painter: QPainter, source: SourceMap, block: QTextBlock, origin: QPointF
    ) -> None:
        colour = QColor(current().draft)
        for first, last in source.stretches(block.position(), block.position() + block.length()):
            for start, end in self._marks.drafted(first, last):
                for a, b in _inside(block, source.shown(start, end)):
                    for rect in line_rects(block, origin, a, b):
                        base = QRectF(rect.left(), rect.bottom() - 1.2, rect.width(), 1.2)
                        painter.fillRect(base, colour)

    def _paint_ghosts(
        self, painter: QPainter, source: SourceMap, block: QTextBlock, origin: QPointF
    ) -> None:
        stretches = list(source.stretches(block.position(), block.position() + block.length()))
        if not stretches:
            return
        busy: dict[int, float] = {}
        for ghost in self._marks.ghosts(stretches[0][0], stretches[-1][1]):
            at = min(source.document_at(ghost.at) - block.position(), block.length() - 1)
            if at >= 0:
                self._paint_ghost(painter, block, origin, at, ghost, busy)

    def _paint_ghost(
        self,
        painter: QPainter,
        block: QTextBlock,
        origin: QPointF,
        at: int,
        ghost: Ghost,
        busy: dict[int, float],
    ) -> None:
        """A caret at the place, and the refused text small above it where there is room."""
        line = block.layout().lineForTextPosition(at)
        if not line.isValid():
            return
        colour = QColor(current().draft)
        x, top = origin.x() + _x(line, at), origin.y() + line.y()
        painter.setPen(QPen(colour, 1))
        painter.drawLine(QPointF(x, top + 1), QPointF(x, top + line.height() - 1))
        font = QFont(self._document.defaultFont())
        font.setPointSizeF(font.pointSizeF() * _GHOST_SIZE)
        font.setStrikeOut(True)
        shown = ghost.text.replace("\n", "\u23ce").strip() or "\u2423"
        metrics = QFontMetricsF(font)
        width = metrics.horizontalAdvance(shown)
        key = line.lineNumber()
        room = origin.x() + line.x() + max(line.width(), line.naturalTextWidth()) - x
        height = metrics.height()
        above = max(top - height * 0.62, 0.0)
        box = QRectF(x + 1, above, min(width, max(room, 0)), height)
        self._tips.append((box.adjusted(-4, 0, 4, line.height()), ghost.text))
        if box.left() < busy.get(key, -1.0) or width > room:
            return
        busy[key] = box.right() + 5
        faded = QColor(colour)
        faded.setAlphaF(0.85)
        painter.setPen(faded)
        painter.setFont(font)
        painter.drawText(box, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, shown)


def visible_blocks(document: QTextDocument, visible: QRectF) -> Iterator[QTextBlock]:
    """The text blocks in a part of the document, in order."""
    layout = document.documentLayout()
    at = layout.hitTest(QPointF(0, visible.top()), Qt.HitTestAccuracy.FuzzyHit)
    block = document.findBlock(max(at, 0))
    while block.isValid():
        box = layout.blockBoundingRect(block)
        if box.top() > visible.bottom():
            break
        if box.bottom() >= visible.top():
            yield block
        block = block.next()


def line_rects(block: QTextBlock, origin: QPointF, start: int, end: int) -> Iterator[QRectF]:
    """The boxes around the units `start` to `end` of a text block, in the document."""
    layout = block.layout()
    mixed = not block.text().isascii() and bool(_BIDI.search(block.text()))
    for number in range(layout.lineCount()):
        line = layout.lineAt(number)
        first, last = max(start, line.textStart()), min(end, line.textStart() + line.textLength())
        if first >= last:
            if line.textStart() >= end:
                break
            continue
        for left, right in _extents(line, first, last, mixed=mixed):
            if right > left:
                yield QRectF(origin.x() + left, origin.y() + line.y(), right - left, line.height())


def _extents(
    line: QTextLine, first: int, last: int, *, mixed: bool
) -> Iterator[tuple[float, float]]:
    """Left and right of units of one line; where directions mix, of each unit on its own."""
    if not mixed:
        yield _x(line, first), _x(line, last)
        return
    for at in range(first, last):
        leading, trailing = _x(line, at), _x(line, at, QTextLine.Edge.Trailing)
        yield min(leading, trailing), max(leading, trailing)


def _x(line: QTextLine, at: int, edge: QTextLine.Edge = QTextLine.Edge.Leading) -> float:
    return cast("tuple[float, int]", line.cursorToX(at, edge))[0]


def _inside(block: QTextBlock, ranges: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Ranges of the document as units of a text block, as far as they lie in it."""
    position, length = block.position(), block.length() - 1
    for start, end in ranges:
        first, last = max(start - position, 0), min(end - position, length)
        if first < last:
            yield first, last
