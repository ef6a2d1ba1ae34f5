"""Accepted by position: how often the first, second, third... drafted token is right."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen
from PySide6.QtWidgets import QWidget

from app.performance import wording
from app.performance.frames import PaintedView
from app.performance.sight import Sight
from app.theme.theme import current
from app.widgets.painted import hatch
from app.widgets.table import Table
from engine.language import number, tr

_BARS = 44
_WIDEST = 40
_MOST = 10


class DepthView(PaintedView):
    """One bar per position: the accepted share solid, the rejected rest hatched."""

    def __init__(self, sight: Sight, parent: QWidget | None = None) -> None:
        super().__init__(tr("Accepted by position"), sight, parent)

    def height_for(self, room: float) -> float:  # noqa: ARG002
        """Header, percentages, bars, positions; one line where there is nothing to count."""
        if not self._depths():
            return self.header_height + self.small_metrics.height()
        return self.header_height + 2 * self.small_metrics.height() + _BARS + 4

    def describe(self) -> str:
        """See `wording.by_position`."""
        return wording.by_position(self._depths())

    def table(self) -> Table:
        """Return how many were on offer and accepted at each position."""
        rows = tuple(
            (str(place), number(offered), number(accepted), wording.percent(accepted / offered))
            for place, (offered, accepted) in enumerate(self._depths(), start=1)
        )
        columns = (tr("Position"), tr("On offer"), tr("Accepted"), tr("Share"))
        return Table(self.accessibleName(), columns, rows)

    def _depths(self) -> list[tuple[int, int]]:
        tally = self.sight.tally
        return [] if tally is None else [d for d in tally.by_depth if d[0]][:_MOST]

    def paint(self, painter: QPainter) -> None:
        """Draw the bars, or say that there is nothing to count."""
        depths = self._depths()
        title, note = tr("Accepted by position"), tr("% of tokens on offer")
        self.paint_title(painter, title, note if depths else "", 0)
        line = self.small_metrics.height()
        if depths:
            top = self.header_height + line
            self._paint_bars(painter, QRectF(0, top, self.room, _BARS), depths)
        else:
            self.paint_note(painter, tr("No drafted tokens to count"))

    def _paint_bars(self, painter: QPainter, area: QRectF, depths: list[tuple[int, int]]) -> None:
        tokens = current()
        line = self.small_metrics.height()
        step = min(area.width() / len(depths), _WIDEST + 32)
        width = min(step * 0.72, _WIDEST)
        painter.setFont(self.small)
        for index, (offered, accepted) in enumerate(depths):
            middle = round(step * index + width / 2)
            bar = QRectF(round(middle - width / 2), area.top(), round(width), area.height())
            share = accepted / offered
            split = round(bar.height() * (1 - share))
            painter.setPen(Qt.PenStyle.NoPen)
            painter.fillRect(bar, QColor(tokens.sunken))
            painter.fillRect(
                bar.adjusted(0, 0, 0, split - bar.height()), hatch(QColor(tokens.border_strong))
            )
            painter.fillRect(bar.adjusted(0, split, 0, 0), QColor(tokens.verify))
            painter.setPen(QPen(QColor(tokens.border_strong), 1))
            painter.drawRect(bar.adjusted(0.5, 0.5, -0.5, -0.5))
            column = QRectF(middle - step / 2, area.top() - line, step, line)
            painter.setPen(QColor(tokens.text))
            painter.drawText(column, Qt.AlignmentFlag.AlignCenter, number(100 * share, ".0f"))
            column.moveTop(area.bottom() + 2)
            painter.setPen(QColor(tokens.muted))
            painter.drawText(column, Qt.AlignmentFlag.AlignCenter, str(index + 1))
