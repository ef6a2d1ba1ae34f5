"""One cell per layer: on the card, on the CPU, or about to move."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPen
from PySide6.QtWidgets import QWidget

from app.theme.theme import current
from app.tuning.budget.layers import LayerPlace, LayerPlaces
from app.tuning.budget.legend import (
    Entry,
    Legend,
    PlacedEntry,
    about_at,
    height_of,
    paint_legend,
)
from app.widgets.painted import SIDE, TOP, Painted
from app.widgets.table import Table
from app.widgets.terms import explained
from engine.language import tr

_GAP = 2
_NARROWEST, _WIDEST = 9, 48
_HEIGHT = 18
_ROW_GAP = 4


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells in rows of about the same length, each wide enough to be seen."""

    count: int
    per_row: int
    width: int

    @classmethod
    def of(cls, count: int, room: float) -> Grid:
        """Return the grid with the fewest rows."""
        most = max(int((room + _GAP) // (_NARROWEST + _GAP)), 1)
        rows = max(math.ceil(count / most), 1)
        per_row = max(math.ceil(count / rows), 1)
        return cls(count, per_row, min(int((room + _GAP) / per_row) - _GAP, _WIDEST))

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return math.ceil(self.count / self.per_row)

    @property
    def height(self) -> int:
        """Return the height of all rows."""
        return max(self.rows * (_HEIGHT + _ROW_GAP) - _ROW_GAP, 0)

    def cell(self, index: int) -> QRectF:
        """Return where a cell is."""
        row, column = divmod(index, self.per_row)
        x, y = column * (self.width + _GAP), row * (_HEIGHT + _ROW_GAP)
        return QRectF(x, y, self.width, _HEIGHT)

    def at(self, point: QPointF) -> int | None:
        """The cell at a place; gaps belong to the cell before them."""
        column, row = int(point.x() // (self.width + _GAP)), int(point.y() // (_HEIGHT + _ROW_GAP))
        index = row * self.per_row + column
        inside = 0 <= column < self.per_row and row >= 0
        return index if inside and index < self.count else None


class LayerMap(Painted):
    """Shows `LayerPlaces`."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr("Layers of the target"), parent)
        self.places = LayerPlaces((), (), "")
        self._entries = Legend()

    def show_places(self, places: LayerPlaces) -> None:
        """Show other places; paints only where something moves."""
        if places != self.places:
            self.places, self._entries = places, Legend(_entries(places))
            self.refresh()

    def height_for(self, room: float) -> float:
        """Title, cells, legend."""
        legend = height_of(self._legend(room), self.small_metrics)
        return self.header_height + Grid.of(len(self.places.layers), room).height + 6 + legend

    def describe(self) -> str:
        """Return the number of layers on each device, in words."""
        return self.places.summary()

    def table(self) -> Table:
        """Return a table of every layer."""
        return Table(self.accessibleName(), (tr("Part"), tr("Location")), tuple(self.places.each()))

    def _legend(self, room: float) -> list[PlacedEntry]:
        return self._entries.within(room, self.small)

    def paint(self, painter: QPainter) -> None:
        """Paint all cells that look alike at once."""
        self.paint_title(painter, self.accessibleName(), "", 0)
        layers, top = self.places.layers, self.header_height
        grid = Grid.of(len(layers), self.room)
        for place in LayerPlace:
            cells = [
                grid.cell(index).translated(0, top)
                for index, there in enumerate(layers)
                if there is place
            ]
            _fill(place, painter, cells)
        legend = self._legend(self.room)
        paint_legend(painter, legend, self.small, 0, top + grid.height + 6)

    def words_at(self, place: QPointF) -> str:
        """Return the description of the layer at a place, or the meaning of a word below."""
        grid = Grid.of(len(self.places.layers), self.room)
        inside = place - QPointF(SIDE, TOP + self.header_height)
        index = grid.at(inside)
        if index is not None:
            return self.places.layer_words(index)
        return about_at(self._legend(self.room), self.small_metrics, inside, grid.height + 6)


def _entries(places: LayerPlaces) -> Iterator[Entry]:
    """Yield the number of layers on each device, and what lies beside them."""
    for place, count in places.counts():
        yield Entry(places.count_words(place, count), partial(_look, place))
    for name, place in places.others:
        words = tr("{part}: {place}").format(part=name, place=places.words(place))
        yield Entry(words, partial(_look, place), explained(name))


def _look(place: LayerPlace, painter: QPainter, area: QRectF) -> None:
    _fill(place, painter, [area])


def _fill(place: LayerPlace, painter: QPainter, cells: list[QRectF]) -> None:
    """Never by colour alone: solid, hollow, and two patterns for what moves."""
    if not cells:
        return
    tokens = current()
    frame, brush = {
        LayerPlace.GPU: (tokens.verify, Qt.BrushStyle.SolidPattern),
        LayerPlace.TO_GPU: (tokens.verify, Qt.BrushStyle.BDiagPattern),
        LayerPlace.TO_CPU: (tokens.warning, Qt.BrushStyle.DiagCrossPattern),
        LayerPlace.CPU: (tokens.border_strong, Qt.BrushStyle.NoBrush),
    }[place]
    framed = [cell.adjusted(0.5, 0.5, -0.5, -0.5) for cell in cells]
    painter.setPen(QPen(QColor(frame), 1))
    painter.setBrush(QColor(tokens.sunken))
    painter.drawRects(framed)
    painter.setBrush(QBrush(QColor(frame), brush))
    painter.drawRects(framed)
