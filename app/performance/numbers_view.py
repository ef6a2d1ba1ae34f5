"""The strip of numbers at the top of the panel."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import QWidget

from app.performance import wording
from app.performance.frames import PaintedView
from app.performance.sight import Sight
from app.theme.theme import current
from app.widgets.painted import SIDE, TOP
from app.widgets.table import Table
from app.widgets.terms import explained
from engine.language import listed, tr

_GAP = 12


class NumbersView(PaintedView):
    """Six numbers of the answer being written, in a row, or in fewer columns in little room."""

    def __init__(self, sight: Sight, parent: QWidget | None = None) -> None:
        super().__init__(tr("Speed and acceptance of this answer"), sight, parent)

    def _columns(self, room: float) -> int:
        labels = (label for _, label in wording.numbers(None))
        widest = max(map(self.small_metrics.horizontalAdvance, labels))
        return next((n for n in (6, 3) if room >= n * widest + (n - 1) * _GAP), 2)

    @property
    def _row(self) -> float:
        return self.large_metrics.height() + self.small_metrics.height()

    def height_for(self, room: float) -> float:
        """Return the height of one row, two or three."""
        rows = 6 // self._columns(room)
        return rows * self._row + (rows - 1) * _GAP

    def describe(self) -> str:
        """Return every number with its label."""
        none = tr("none")
        return listed(
            f"{label}: {none if value == wording.ABSENT else value}"
            for value, label in wording.numbers(self.sight.tally)
        )

    def table(self) -> Table:
        """Return the numbers, each behind its label."""
        rows = tuple((label, value) for value, label in wording.numbers(self.sight.tally))
        return Table(self.accessibleName(), (tr("Item"), tr("Value")), rows)

    def words_at(self, place: QPointF) -> str:
        """Return the meaning of the number at a place."""
        columns = self._columns(self.room)
        column = int((place.x() - SIDE) / ((self.room + _GAP) / columns))
        row = int((place.y() - TOP) / (self._row + _GAP))
        index = row * columns + min(max(column, 0), columns - 1)
        return explained(tr(wording.NUMBER_TERMS[index])) if index < 6 else ""

    def paint(self, painter: QPainter) -> None:
        """Draw values above their labels."""
        tokens = current()
        columns = self._columns(self.room)
        width = (self.room - (columns - 1) * _GAP) / columns
        for index, (value, label) in enumerate(wording.numbers(self.sight.tally)):
            row, column = divmod(index, columns)
            left, top = column * (width + _GAP), row * (self._row + _GAP)
            present = value != wording.ABSENT
            painter.setFont(self.large)
            painter.setPen(QColor(tokens.text if present else tokens.border_strong))
            cell = QRectF(left, top, width, self.large_metrics.height())
            painter.drawText(cell, Qt.AlignmentFlag.AlignLeft, value)
            painter.setFont(self.small)
            painter.setPen(QColor(tokens.muted))
            cell.translate(0, self.large_metrics.height())
            painter.drawText(cell, Qt.AlignmentFlag.AlignLeft, label)
