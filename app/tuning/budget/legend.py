"""A legend: squares with words, in as many lines as it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter

from app.theme.theme import current

SWATCH = 11
_BEHIND_SWATCH = 5
_BETWEEN = 16
_LINE_GAP = 3


@dataclass(frozen=True, slots=True)
class Entry:
    """Words with a square before them, which `look` paints, and what they mean."""

    words: str
    look: Callable[[QPainter, QRectF], None]
    about: str = ""


@dataclass(frozen=True, slots=True)
class PlacedEntry:
    """An entry with its place, in pixels and lines."""

    entry: Entry
    left: float
    line: int
    width: float


def placed(entries: Iterable[Entry], metrics: QFontMetricsF, room: float) -> list[PlacedEntry]:
    """Entries one behind the other, in a new line where the room ends."""
    found: list[PlacedEntry] = []
    left, line = 0.0, 0
    for entry in entries:
        width = SWATCH + _BEHIND_SWATCH + metrics.horizontalAdvance(entry.words)
        if left and left + width > room:
            left, line = 0.0, line + 1
        found.append(PlacedEntry(entry, left, line, width))
        left += width + _BETWEEN
    return found


class Legend:
    """Entries, placed once for each width and type."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries = tuple(entries)
        self._room: tuple[float, str] | None = None
        self._placed: list[PlacedEntry] = []

    def within(self, room: float, font: QFont) -> list[PlacedEntry]:
        """The entries with their places."""
        if self._room != (room, font.key()):
            self._room = room, font.key()
            self._placed = placed(self._entries, QFontMetricsF(font), room)
        return self._placed


def height_of(legend: Sequence[PlacedEntry], metrics: QFontMetricsF) -> float:
    """Return the height of a legend."""
    return (legend[-1].line + 1) * (metrics.height() + _LINE_GAP) if legend else 0.0


def about_at(
    legend: Sequence[PlacedEntry], metrics: QFontMetricsF, point: QPointF, top: float
) -> str:
    """Return the meaning of the words at a point, in a legend that begins at `top`."""
    line = (point.y() - top) // (metrics.height() + _LINE_GAP)
    found = (each for each in legend if each.line == line)
    return next((e.entry.about for e in found if e.left <= point.x() < e.left + e.width), "")


def paint_legend(
    painter: QPainter, legend: Sequence[PlacedEntry], font: QFont, left: float, top: float
) -> None:
    """Draw it."""
    metrics, ink = QFontMetricsF(font), QColor(current().text)
    height = metrics.height() + _LINE_GAP
    painter.setFont(font)
    for each in legend:
        line, begin = top + each.line * height, left + each.left
        middle = line + metrics.height() / 2
        each.entry.look(painter, QRectF(round(begin), round(middle - SWATCH / 2), SWATCH, SWATCH))
        painter.setPen(ink)
        base = line + metrics.ascent()
        painter.drawText(QPointF(begin + SWATCH + _BEHIND_SWATCH, base), each.entry.words)
