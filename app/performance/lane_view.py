"""One graph over the last minute."""

from __future__ import annotations

import math

from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QWidget

from app.performance.model import WINDOW_S, LaneModel, PerformanceModel
from app.performance.painted_view import PaintedView, blend, ground
from app.performance.series import Floats, Series, decimate, unbroken
from app.theme.theme import current

_CHART = 40
_GUTTER = 34
"""Room for the scale on the right, where the newest values are."""
_GRID_S = 15
_COLUMN = 2.0
"""Pixels that share one smallest and one largest value."""


class LaneView(PaintedView):
    """Draws a `LaneModel`: the first series as a line over a tint, others as dashed lines."""

    def __init__(
        self, model: PerformanceModel, lane: LaneModel, parent: QWidget | None = None
    ) -> None:
        super().__init__(lane.title, parent)
        self._model = model
        self._lane = lane
        self._axis = False

    def set_axis(self, axis: bool) -> None:
        """Whether to label the time below the graph; the lowest of a stack of lanes does."""
        if axis != self._axis:
            self._axis = axis
            self.setFixedHeight(self.height_for(self.width()))

    def height_for(self, width: int) -> int:  # noqa: ARG002
        """Header, graph, and the time's labels where there are any."""
        axis = self.small_metrics.height() + 2 if self._axis else 4
        return round(self.header_height + _CHART + axis)

    def describe(self) -> str:
        """See `LaneModel.describe`."""
        return self._lane.describe(self._model.now)

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """Draw scale, then lines."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        note = f"{self._lane.names[0]} ━  {self._lane.names[1]} ┄" if self._lane.names else ""
        self.paint_header(painter, self._lane.title, self._lane.value, note)
        area = QRectF(0, self.header_height, self.width() - _GUTTER, _CHART)
        ceiling = self._lane.ceiling(self._model.now)
        self._paint_grid(painter, area, ceiling)
        if math.isfinite(self._model.now):
            painter.setClipRect(area.adjusted(0, -1, 0, 1))
            for index, series in reversed(list(enumerate(self._lane.series))):
                self._paint_series(painter, area, series, ceiling, main=index == 0)
        painter.end()

    def _paint_grid(self, painter: QPainter, area: QRectF, ceiling: float) -> None:
        tokens = current()
        painter.fillRect(area, QColor(tokens.sunken))
        painter.setPen(QPen(QColor(tokens.border), 1))
        painter.drawLines(
            [
                QLineF(x, area.top(), x, area.bottom())
                for x in (
                    round(area.right() - area.width() * t / WINDOW_S) + 0.5
                    for t in range(_GRID_S, int(WINDOW_S), _GRID_S)
                )
            ]
        )
        painter.setFont(self.small)
        ascent = self.small_metrics.capHeight()
        for share, top in ((1.0, area.top()), (0.5, area.center().y()), (0.0, area.bottom())):
            line = math.floor(top) + 0.5
            painter.setPen(QPen(QColor(tokens.border), 1))
            painter.drawLine(QPointF(0, line), QPointF(area.right(), line))
            painter.setPen(QColor(tokens.muted))
            baseline = min(max(line + ascent / 2, area.top() + ascent), area.bottom())
            painter.drawText(QPointF(area.right() + 6, baseline), f"{share * ceiling:g}")
        if self._axis:
            self._paint_time(painter, area)

    def _paint_time(self, painter: QPainter, area: QRectF) -> None:
        below = QRectF(0, area.bottom() + 2, area.width(), self.small_metrics.height())
        for text, side in (
            (f"{WINDOW_S:.0f} s ago", Qt.AlignmentFlag.AlignLeft),
            (f"{WINDOW_S / 2:.0f} s", Qt.AlignmentFlag.AlignHCenter),
            ("now", Qt.AlignmentFlag.AlignRight),
        ):
            painter.drawText(below, side, text)

    def _paint_series(
        self, painter: QPainter, area: QRectF, series: Series, ceiling: float, *, main: bool
    ) -> None:
        tokens = current()
        start = self._model.now - WINDOW_S
        times, values = series.since(start)
        colour = QColor(tokens.accent if main else tokens.muted)
        # One pixel is what Qt strokes fast: anything wider costs twenty times as much.
        pen = QPen(colour, 1, Qt.PenStyle.SolidLine if main else Qt.PenStyle.DashLine)
        for run_times, run_values in unbroken(times, values):
            x = (run_times - start) * (area.width() / WINDOW_S)
            y = area.bottom() - run_values.clip(0, ceiling) * ((area.height() - 1) / ceiling)
            line = _polygon(*decimate(x, y, _COLUMN))
            if main:
                self._paint_tint(painter, area, line)
            painter.setPen(pen)
            if len(line) > 1:
                painter.drawPolyline(line)
            else:  # a single measurement between two breaks
                painter.setBrush(colour)
                painter.drawEllipse(line[0], 1.0, 1.0)

    def _paint_tint(self, painter: QPainter, area: QRectF, line: list[QPointF]) -> None:
        tokens = current()
        corners = [QPointF(line[-1].x(), area.bottom()), QPointF(line[0].x(), area.bottom())]
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(blend(tokens.accent, ground(self, tokens), 0.16))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.drawPolygon(QPolygonF([*line, *corners]))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)


def _polygon(x: Floats, y: Floats) -> list[QPointF]:
    return [QPointF(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
