"""A few words around a hit, laid out in the room there is, with the words found marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QFont, QFontMetricsF, QTextCharFormat, QTextLayout, QTextOption

Ranges = Sequence[tuple[int, int]]
_ELLIPSIS = "\u2026"
_BEFORE = (24, 8, 0)
"""Characters kept before the first hit where the beginning has to go: as many as there is room."""


@dataclass(frozen=True, slots=True)
class Snippet:
    """One line of plain text and where the words are in it, in characters."""

    text: str
    ranges: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, text: str, ranges: Ranges) -> Snippet:
        """Return a snippet of text that may have line breaks; no character is added or lost."""
        flat = "".join(" " if each.isspace() else each for each in text)
        return cls(flat, tuple(ranges))

    def cut_before(self, start: int) -> Snippet:
        """Return the snippet with an ellipsis in the place of what stands before `start`."""
        moved = tuple(
            (max(first - start, 0) + 1, last - start + 1)
            for first, last in self.ranges
            if last > start
        )
        return Snippet(_ELLIPSIS + self.text[start:], moved)

    def cut_after(self, end: int) -> Snippet:
        """Return the snippet with an ellipsis in the place of what stands from `end` on."""
        kept = tuple((first, min(last, end)) for first, last in self.ranges if first < end)
        return Snippet(self.text[:end].rstrip() + _ELLIPSIS, kept)


def laid_out(
    snippet: Snippet, font: QFont, width: float, lines: int, mark: QTextCharFormat
) -> QTextLayout:
    """The snippet in at most `lines` lines of `width`, the first hit among them."""
    shown = snippet
    layout, end = _lay(shown, font, width, lines, mark)
    for before in _BEFORE:
        if not shown.ranges or shown.ranges[0][1] <= end:
            break
        start = max(snippet.ranges[0][0] - before, 0)
        shown = snippet.cut_before(_word_start(snippet.text, start, snippet.ranges[0][0]))
        layout, end = _lay(shown, font, width, lines, mark)
    while end < len(shown.text) and end > 1:
        shown = shown.cut_after(min(end, len(shown.text) - 1) - 1)
        layout, end = _lay(shown, font, width, lines, mark)
    return layout


def line_height(font: QFont) -> float:
    """Return the distance of two lines, with room for scripts higher than the font's own."""
    return QFontMetricsF(font).lineSpacing() * 1.12


def _lay(
    snippet: Snippet, font: QFont, width: float, lines: int, mark: QTextCharFormat
) -> tuple[QTextLayout, int]:
    """The layout, and how many characters it has room for."""
    option = QTextOption(Qt.AlignmentFlag.AlignLeft)
    option.setTextDirection(Qt.LayoutDirection.LayoutDirectionAuto)
    wrap = QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere
    option.setWrapMode(QTextOption.WrapMode.WrapAnywhere if lines == 1 else wrap)
    layout = QTextLayout(snippet.text, font)
    layout.setTextOption(option)
    layout.setCacheEnabled(True)
    layout.setFormats([_format(snippet.text, first, last, mark) for first, last in snippet.ranges])
    layout.beginLayout()
    end, pitch = 0, line_height(font)
    for number in range(lines):
        line = layout.createLine()
        if not line.isValid():
            break
        line.setLineWidth(width)
        # Equal lines, whatever fonts the scripts in them need.
        line.setPosition(QPointF(0, number * pitch + (pitch - line.height()) / 2))
        end = line.textStart() + line.textLength()
    layout.endLayout()
    return layout, len(snippet.text.encode("utf-16-le")[: 2 * end].decode("utf-16-le", "ignore"))


def _format(text: str, first: int, last: int, mark: QTextCharFormat) -> QTextLayout.FormatRange:
    result = QTextLayout.FormatRange()
    result.start = _units(text[:first])
    result.length = _units(text[first:last])
    result.format = mark
    return result


def _units(text: str) -> int:
    """Return the number of UTF-16 units of `text`."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _word_start(text: str, start: int, hit: int) -> int:
    """Return where a word begins between `start` and the hit, or else `start`."""
    blank = text.find(" ", start, hit)
    return blank + 1 if blank >= 0 else start
