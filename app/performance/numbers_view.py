"""The strip of numbers at the top of the panel."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from app.performance import wording
from app.performance.model import PerformanceModel
from app.performance.painted_view import PaintedView
from app.theme.theme import current

_GAP = 12


class NumbersView(PaintedView):
    """Six numbers of the answer being written, in three columns, or two where space is short."""

    def __init__(self, model: PerformanceModel, parent: QWidget | None = None) -> None:
        super().__init__("Speed and acceptance of this answer", parent)
        self._model = model

    def _columns(self, width: int) -> int:
        widest = max(
            self.small_metrics.horizontalAdvance(label) for _, label in wording.numbers(None)
        )
        return 3 if width >= 3 * widest + 2 * _GAP else 2

    @property
    def _row(self) -> float:
        return self.large_metrics.height() + self.small_metrics.height()

    def height_for(self, width: int) -> int:
        """Two or three rows."""
        rows = 6 // self._columns(width)
        return round(rows * self._row + (rows - 1) * _GAP)

    def describe(self) -> str:
        """Every number with its label."""
        return ", ".join(
            f"{label}: {'none' if value == wording.ABSENT else value}"
            for value, label in wording.numbers(self._model.tally)
        )

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """Draw values above their labels."""
        tokens = current()
        painter = QPainter(self)
        columns = self._columns(self.width())
        width = (self.width() - (columns - 1) * _GAP) / columns
        for index, (value, label) in enumerate(wording.numbers(self._model.tally)):
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
        painter.end()
