"""One graph over time, with the cursor that all graphs share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPen, QPixmap, QPolygonF
from PySide6.QtWidgets import QWidget

from app.performance import wording
from app.performance.frames import PaintedView
from app.performance.model import GraphModel
from app.performance.series import Series, decimate, unbroken
from app.performance.sight import Sight
from app.performance.tables import of_lane
from app.performance.timeline import Stretch
from app.theme.theme import current
from app.widgets.painted import SIDE, blend, ground
from app.widgets.table import Table
from engine.language import number, tr

if TYPE_CHECKING:
    from app.performance.series import Floats

CHART = 40
_GUTTER = 34
"""Room for the scale on the right, where the newest values are."""
_COLUMN = 2.0
"""Pixels that share one smallest and one largest value."""
_DIVISIONS = 4
_STEP = 0.02
"""Share of the window by which an arrow key moves the cursor where nothing was measured."""


class LaneView(PaintedView):
    """Draws a `GraphModel`: the first series as a line over a tint, others as dashed lines.

    Title, grid and scale are drawn once and kept: only the lines change from frame to frame.

    Args:
        sight: the stretch of time on show.
        lane: the graph to draw.
        chart: height of the graph, in pixels.
    """

    def __init__(
        self,
        sight: Sight,
        lane: GraphModel,
        parent: QWidget | None = None,
        *,
        chart: int = CHART,
    ) -> None:
        self._chart = chart
        super().__init__(tr(lane.title), sight, parent)
        self._lane = lane
        self._axis = False
        self._base: QPixmap | None = None
        self._base_for: tuple[object, ...] = ()
        self.setMouseTracking(True)

    @property
    def present(self) -> bool:
        """True if this machine measures it."""
        return self._lane.present

    def set_axis(self, axis: bool) -> None:
        """Set whether the time is labelled below; only the lowest of a stack of lanes has it."""
        if axis != self._axis:
            self._axis = axis
            self.resize_to_fit()

    def height_for(self, room: float) -> float:  # noqa: ARG002
        """Header, graph, and the time's labels where there are any."""
        return (
            self.header_height
            + self._chart
            + (self.small_metrics.height() + 2 if self._axis else 0)
        )

    def describe(self) -> str:
        """See `GraphModel.describe`. A simulated GPU's lane has a title of its own."""
        if self.accessibleName() != tr(self._lane.title):
            self.setAccessibleName(tr(self._lane.title))
        return self._lane.describe(*self.sight.bounds)

    def table(self) -> Table:
        """See `tables.of_lane`."""
        return of_lane(self._lane, *self.sight.bounds)

    @property
    def _area(self) -> QRectF:
        return QRectF(0, self.header_height, self.room - _GUTTER, self._chart)

    @property
    def _stretch(self) -> Stretch:
        return Stretch(*self.sight.bounds, self._area.width())

    # -- the picture -----------------------------------------------------------------------

    def paint(self, painter: QPainter) -> None:
        """The kept ground, then the lines."""
        area, known = self._area, math.isfinite(self.sight.now)
        ceiling = self._lane.ceiling(*self.sight.bounds) if known else self._lane.scale.ceiling
        painter.drawPixmap(QPointF(-SIDE, -6), self._ground(ceiling))
        if not known:
            return
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setClipRect(area.adjusted(0, -1, 0, 1))
        for index, series in reversed(list(enumerate(self._lane.series))):
            self._paint_series(painter, area, series, ceiling, main=index == 0)

    def _ground(self, ceiling: float) -> QPixmap:
        """Title, grid and scale."""
        seconds = self.sight.bounds[1] - self.sight.bounds[0]
        shown_s = round(seconds) if math.isfinite(seconds) else 0
        look = (self.size(), self.devicePixelRatioF(), current(), self.small)
        wanted = (self._lane.title, ceiling, shown_s, *look)
        if self._base is None or wanted != self._base_for:
            self._base, self._base_for = self.blank(self.size()), wanted
            painter = QPainter(self._base)
            painter.translate(SIDE, 6)
            names = self._lane.names
            note = f"{tr(names[0])} ━  {tr(names[1])} ┄" if names else ""
            taken = self.title_metrics.horizontalAdvance("0.00 of 00.0 GiB")
            self.paint_title(painter, tr(self._lane.title), note, taken)
            self._paint_grid(painter, self._area, ceiling)
            if self._axis and shown_s:
                self._paint_time(painter, self._area, shown_s)
            painter.end()
        return self._base

    def _paint_grid(self, painter: QPainter, area: QRectF, ceiling: float) -> None:
        tokens = current()
        painter.fillRect(area, QColor(tokens.sunken))
        painter.setPen(QPen(QColor(tokens.border), 1))
        for part in range(1, _DIVISIONS):
            x = round(area.width() * part / _DIVISIONS) + 0.5
            painter.drawLine(QLineF(x, area.top(), x, area.bottom()))
        painter.setFont(self.small)
        ascent = self.small_metrics.capHeight()
        for share, top in ((1.0, area.top()), (0.5, area.center().y()), (0.0, area.bottom())):
            line = math.floor(top) + 0.5
            painter.setPen(QPen(QColor(tokens.border), 1))
            painter.drawLine(QPointF(0, line), QPointF(area.right(), line))
            painter.setPen(QColor(tokens.muted))
            baseline = min(max(line + ascent / 2, area.top() + ascent), area.bottom())
            painter.drawText(QPointF(area.right() + 6, baseline), number(share * ceiling, "g"))

    def _paint_time(self, painter: QPainter, area: QRectF, seconds: float) -> None:
        below = QRectF(0, area.bottom() + 2, area.width(), self.small_metrics.height())
        for text, side in (
            (tr("{time} ago").format(time=wording.span(seconds)), Qt.AlignmentFlag.AlignLeft),
            (wording.span(seconds / 2), Qt.AlignmentFlag.AlignHCenter),
            (tr("now"), Qt.AlignmentFlag.AlignRight),
        ):
            painter.drawText(below, side, text)

    def _paint_series(
        self, painter: QPainter, area: QRectF, series: Series, ceiling: float, *, main: bool
    ) -> None:
        tokens, view = current(), self._stretch
        times, values = series.between(view.start, view.end)
        colour = QColor(tokens.accent if main else tokens.muted)
        # One pixel is what Qt strokes fast: anything wider costs twenty times as much.
        pen = QPen(colour, 1, Qt.PenStyle.SolidLine if main else Qt.PenStyle.DashLine)
        for run_times, run_values in unbroken(times, values):
            x = (run_times - view.start) * (view.width / (view.end - view.start))
            y = area.bottom() - run_values.clip(0, ceiling) * ((area.height() - 1) / ceiling)
            line = _points(*decimate(x, y, _COLUMN))
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

    # -- the cursor ------------------------------------------------------------------------

    def paint_over(self, painter: QPainter) -> None:
        """The value at the cursor instead of the newest one, and the cursor."""
        view, at, tokens = self._stretch, self.sight.cursor, current()
        if at is None or not view.start <= at <= view.end:
            self.paint_value(painter, self._lane.value, self.room)
            return
        area, x = self._area, view.x(at)
        painter.setPen(QPen(QColor(tokens.text), 1))
        line = math.floor(x) + 0.5
        painter.drawLine(QPointF(line, area.top() - 2), QPointF(line, area.bottom() + 2))
        near = self._lane.series[0].nearest(at)
        # Too far from any measurement nothing is claimed.
        close = near is not None and abs(view.x(near[0]) - x) < max(6.0, view.x(at + 1.0) - x)
        said = wording.ABSENT if near is None or not close else number(near[1], ".3g")
        text = f"{said} · {wording.ago(view.end - at)}"
        behind_title = self.title_metrics.horizontalAdvance(tr(self._lane.title)) + 8
        self.paint_value(painter, text, behind_title)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """The cursor follows the mouse, through all graphs."""
        super().mouseMoveEvent(event)
        view, x = self._stretch, event.position().x() - SIDE
        if math.isfinite(view.end) and 0 <= x <= view.width:
            self.sight.point_at(view.time(x - 0.5), view.time(x + 0.5))
        else:
            self.sight.point(None)

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        """Hide the cursor without a mouse."""
        super().leaveEvent(event)
        self.sight.point(None)

    def key(self, key: Qt.Key) -> bool:
        """Arrows move the cursor from measurement to measurement; Escape takes it away."""
        if key == Qt.Key.Key_Escape and self.sight.cursor is not None:
            self.sight.point(None)
            return True
        view = self._stretch
        if key not in (Qt.Key.Key_Left, Qt.Key.Key_Right) or not math.isfinite(view.end):
            return False
        step = 1 if key == Qt.Key.Key_Right else -1
        # Never less than a pixel: thousands of measurements may lie in one.
        pixel = (view.end - view.start) / view.width
        at = self.sight.cursor
        if at is None:
            last = self._lane.series[0].neighbour(math.inf, -1)
            at = view.end if last is None else last
        else:
            beyond = at + step * pixel
            found = self._lane.series[0].neighbour(beyond, step)
            at = found if found is not None else at + step * _STEP * (view.end - view.start)
        at = min(max(at, view.start), view.end)
        self.sight.point_at(at - pixel / 2, at + pixel / 2)
        return True


def show_present(views: Sequence[LaneView]) -> None:
    """Hide the graphs of what is not measured here; the lowest of the others labels the time."""
    lowest = max(index for index, view in enumerate(views) if view.present)
    for index, view in enumerate(views):
        view.set_axis(index == lowest)
        if view.isHidden() == view.present:
            view.setVisible(view.present)


def _points(x: Floats, y: Floats) -> list[QPointF]:
    return [QPointF(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
