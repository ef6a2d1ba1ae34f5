"""Paints tint, marks and search hits over a message's text without touching it.

All of it is painted on the lines as they were laid out. No text is shaped or laid out anew, so
that a token that ends within a letter, a ligature or an emoji tears nothing apart.
"""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetricsF,
    QPainter,
    QPen,
    QTextBlock,
    QTextDocument,
)

from app.chat.text.line_boxes import BlockLines, visible_blocks
from app.chat.text.source_map import SourceMap
from app.chat.text.tint import Ghost, Marks
from app.theme.theme import current

_GHOST_SIZE = 0.72
"""Size of refused text, of the text around it."""
_APART = 5
"""Pixels between two refused stretches."""


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
        tinted: list[QRectF] = []
        ghosts = _GhostPainter(painter, self._document.defaultFont())
        for block in visible_blocks(self._document, visible):
            lines = BlockLines(block)
            if marks.mark is not None:
                _paint_mark(painter, lines.shown(source.shown(*marks.mark)))
            for start, end in marks.hits(block):
                _paint_hit(painter, lines.rects(start, end))
            end = block.position() + block.length()
            stretches = list(source.stretches(block.position(), end))
            for first, last in stretches if marks.tinted else ():
                for start, end in marks.drafted(first, last):
                    tinted += lines.shown(source.shown(start, end))
            if stretches:
                for ghost in marks.ghosts(stretches[0][0], stretches[-1][1]):
                    self._tips += ghosts.paint(ghost, _caret(ghost, source, block, lines))
        if tinted:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(current().draft))
            painter.drawRects([_underline(rect, 1.2) for rect in tinted])


class _GhostPainter:
    """A caret at every refused stretch, and its text small above it where there is room."""

    def __init__(self, painter: QPainter, font: QFont) -> None:
        self._painter = painter
        self._font = QFont(font)
        self._font.setPointSizeF(font.pointSizeF() * _GHOST_SIZE)
        self._font.setStrikeOut(True)
        self._metrics = QFontMetricsF(self._font)
        self._colour = QColor(current().draft)
        self._taken: dict[float, float] = {}

    def paint(self, ghost: Ghost, place: tuple[QRectF, float] | None) -> list[tuple[QRectF, str]]:
        """Paint one at its caret, in a line that ends at the second number; where its tip is."""
        if place is None:
            return []
        caret, line_end = place
        painter, height = self._painter, self._metrics.height()
        painter.setPen(QPen(self._colour, 1))
        painter.drawLine(caret.topLeft(), caret.bottomLeft())
        shown = ghost.text.replace("\n", "\u23ce").strip() or "\u2423"
        width = self._metrics.horizontalAdvance(shown)
        left, above = caret.left() + 1, max(caret.top() - height * 0.62, 0.0)
        taken = self._taken.get(caret.top(), 0.0)
        if left < taken or left + width > line_end:
            return [(caret.adjusted(-4, 0, 4, 0), ghost.text)]
        self._taken[caret.top()] = left + width + _APART
        box = QRectF(left, above, width, height)
        painter.setFont(self._font)
        painter.drawText(box, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, shown)
        return [(box.united(caret.adjusted(-4, 0, 4, 0)), ghost.text)]


def _caret(
    ghost: Ghost, source: SourceMap, block: QTextBlock, lines: BlockLines
) -> tuple[QRectF, float] | None:
    at = source.document_at(ghost.at) - block.position()
    return lines.caret(min(at, block.length() - 1)) if at >= 0 else None


def _paint_mark(painter: QPainter, rects: Iterable[QRectF]) -> None:
    colour = QColor(current().accent)
    fill = QColor(colour)
    fill.setAlphaF(0.16)
    painter.setPen(QPen(colour, 1))
    painter.setBrush(fill)
    for rect in rects:
        painter.drawRoundedRect(rect.adjusted(-1.5, -0.5, 1.5, 0.5), 3, 3)


def _paint_hit(painter: QPainter, rects: Iterable[QRectF]) -> None:
    colour = QColor(current().warning)
    fill = QColor(colour)
    fill.setAlphaF(0.28)
    for rect in rects:
        painter.fillRect(rect, fill)
        painter.fillRect(_underline(rect, 1.5), colour)


def _underline(rect: QRectF, thickness: float) -> QRectF:
    return QRectF(rect.left(), rect.bottom() - thickness, rect.width(), thickness)
