"""Boxes of stretches of a laid-out text block, line by line, in any direction of writing."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import cast

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QTextBlock, QTextDocument, QTextLine

_BIDI = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]")


class BlockLines:
    """The lines of one text block; places count units from its start."""

    def __init__(self, block: QTextBlock) -> None:
        document, layout, text = block.document(), block.layout(), block.text()
        origin = document.documentLayout().blockBoundingRect(block).topLeft()
        self._left, self._top = origin.x(), origin.y()
        self._position, self._length = block.position(), block.length() - 1
        self._mixed = not text.isascii() and bool(_BIDI.search(text))
        self._lines = [layout.lineAt(number) for number in range(layout.lineCount())]
        self._starts = [line.textStart() for line in self._lines]

    def rects(self, start: int, end: int) -> Iterator[QRectF]:
        """The boxes around the units `start` to `end`, in the document."""
        index = max(bisect_right(self._starts, start) - 1, 0)
        while index < len(self._lines) and self._starts[index] < end:
            line = self._lines[index]
            index += 1
            first = max(start, line.textStart())
            last = min(end, line.textStart() + line.textLength())
            top, height = self._top + line.y(), line.height()
            for left, right in self._extents(line, first, last):
                if right > left:
                    yield QRectF(self._left + left, top, right - left, height)

    def shown(self, ranges: Iterable[tuple[int, int]]) -> Iterator[QRectF]:
        """The boxes around stretches of the document, as far as they lie in this block."""
        for start, end in ranges:
            first = max(start - self._position, 0)
            last = min(end - self._position, self._length)
            if first < last:
                yield from self.rects(first, last)

    def caret(self, at: int) -> tuple[QRectF, float] | None:
        """The box of the place before unit `at`, without width, and where its line ends."""
        if not self._lines:
            return None
        line = self._lines[max(bisect_right(self._starts, at) - 1, 0)]
        x = self._left + _x(line, at)
        return QRectF(x, self._top + line.y(), 0, line.height()), (
            self._left + line.x() + line.width()
        )

    def _extents(self, line: QTextLine, first: int, last: int) -> Iterator[tuple[float, float]]:
        """Left and right of units of a line; where directions mix, of every run of glyphs."""
        if not self._mixed:
            yield _x(line, first), _x(line, last)
        elif first < last:
            for run in line.glyphRuns(first, last - first):
                box = run.boundingRect()
                yield box.left(), box.right()


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


def _x(line: QTextLine, at: int) -> float:
    return cast("tuple[float, int]", line.cursorToX(at))[0]
