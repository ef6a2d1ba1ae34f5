"""Predicted tokens per second along the budget, with what was measured as dots."""

from __future__ import annotations

import math
from functools import partial

from PySide6.QtCore import QLineF, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QMouseEvent,
    QPainter,
    QPen,
)
from PySide6.QtWidgets import QWidget

from app.engine_link.plan_texts import mode_name
from app.theme.theme import current
from app.tuning.budget.axis import Axis, round_step
from app.tuning.budget.legend import Entry, PlacedEntry, height_of, paint_legend, placed
from app.tuning.budget.model import BudgetModel, MeasuredPoint
from app.tuning.budget.tables import of_curve
from app.tuning.budget.wording import curve_words, measured_words, sentence
from app.widgets.painted import SIDE, TOP, Painted, ground, hatch
from app.widgets.table import Table
from engine.events.models import Curve
from engine.language import number, tr
from engine.language.units import memory, tokens_per_s

_LINES = 9
"""Height of the plot, in lines of small type."""
_DOT, _NEAR = 4.0, 12.0
_BAND = 44
"""Opacity, of 255."""
_VEIL = 150
_TICKS = 4
_DASHES = (Qt.PenStyle.DashLine, Qt.PenStyle.DotLine, Qt.PenStyle.DashDotLine)
_CHIP = 3
_ASIDE = 8
"""Between the end of a line and its name."""


class CurveView(Painted):
    """Shows a `BudgetModel`; where the budget stands lies over the kept picture."""

    pointed = Signal(float)
    """The user presses or drags at so many bytes."""
    let_go = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr("Predicted speed by GPU memory"), parent)
        self._model: BudgetModel | None = None
        self._budget: int | None = None
        self._sides = (0.0, 0.0)
        self._ticks = _ticks(None)

    # -- what is shown ---------------------------------------------------------------------

    def show_model(self, model: BudgetModel) -> None:
        """Show other curves, or another forbidden zone."""
        self._model, self._ticks = model, _ticks(model)
        self.resize_to_fit()

    def show_budget(self, budget: int | None) -> None:
        """Mark a budget, or Auto."""
        self._budget = budget
        self.update()

    def set_sides(self, left: float, right: float) -> None:
        """Room beside the plot, inside the margins."""
        if self._sides != (left, right):
            self._sides = left, right
            self.resize_to_fit()

    def gutter(self) -> float:
        """Room that the numbers of the speeds need."""
        return max(map(self.small_metrics.horizontalAdvance, map(self._tick, self._ticks))) + 8

    def height_for(self, room: float) -> float:
        """Title, plot, and a legend where the names have no room in it."""
        plot = (_LINES + 0.5) * self.small_metrics.height()
        return self._above(room) + plot

    def describe(self) -> str:
        """The curve in sentences."""
        return "" if self._model is None else curve_words(self._model)

    def table(self) -> Table:
        """Return a table of every step."""
        return of_curve(self.accessibleName(), self._model)

    # -- where what is ---------------------------------------------------------------------

    @property
    def axis(self) -> Axis:
        """The budgets, in the coordinates of the area inside the margins."""
        left, right = self._sides
        total = 0 if self._model is None else self._model.extent
        return Axis(total, left, max(self.room - left - right, 1.0))

    @property
    def _plot(self) -> QRectF:
        axis, line = self.axis, self.small_metrics.height()
        top = self._above(self.room) + line / 2
        return QRectF(axis.left, top, axis.width, (_LINES - 0.5) * line)

    def _above(self, room: float) -> float:
        """Height of what is above the plot."""
        return self.header_height + height_of(self._legend(room), self.small_metrics)

    def _legend(self, room: float) -> list[PlacedEntry]:
        """The names of the lines, where these do not fit into the forbidden zone."""
        model = self._model
        if model is None or self._names_fit(model):
            return []
        entries = [
            Entry(mode_name(curve.mode), partial(_line_sample, _pen(index)))
            for index, curve in enumerate(model.curves)
            if curve.points
        ]
        return placed(entries, self.small_metrics, room)

    def _names_fit(self, model: BudgetModel) -> bool:
        names = [mode_name(curve.mode) for curve in model.curves if curve.points]
        widest = max(map(self.small_metrics.horizontalAdvance, names), default=0.0)
        return self.axis.x(model.limit) + 2 * _ASIDE + widest <= self.room

    def _tick(self, value: float) -> str:
        whole = all(float(each).is_integer() for each in self._ticks)
        return number(value, ",.0f" if whole else ".2g")

    def _y(self, plot: QRectF, rate: float) -> float:
        return plot.bottom() - plot.height() * rate / max(self._ticks[-1], 1e-9)

    # -- the picture -----------------------------------------------------------------------

    def paint(self, painter: QPainter) -> None:
        """Paint everything but the budget."""
        model, plot = self._model, self._plot
        dots = model is not None and bool(model.measured)
        note = tr("tokens/s; dots: measured") if dots else tr("tokens/s")
        self.paint_title(painter, tr("Predicted speed"), note, 0)
        if model is None or not model.total:
            return
        self._paint_grid(painter, plot)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_band(painter, plot, model)
        self._paint_others(painter, plot, model)
        painter.setPen(_pen(0))
        painter.drawPolyline(self._corners(plot, model.main))
        self._paint_forbidden(painter, plot, model)
        self._paint_knee(painter, plot, model)
        legend = self._legend(self.room)
        if legend:
            paint_legend(painter, legend, self.small, 0, self.header_height)
        else:
            self._paint_names(painter, plot, model)
        for seen in model.measured:
            self._paint_dot(painter, plot, seen)

    def _paint_grid(self, painter: QPainter, plot: QRectF) -> None:
        tokens, metrics = current(), self.small_metrics
        painter.setFont(self.small)
        for value in self._ticks:
            y, words = round(self._y(plot, value)), self._tick(value)
            painter.setPen(QColor(tokens.border if value else tokens.border_strong))
            painter.drawLine(QPointF(plot.left(), y), QPointF(plot.right(), y))
            painter.setPen(QColor(tokens.muted))
            left = plot.left() - 6 - metrics.horizontalAdvance(words)
            painter.drawText(QPointF(left, y + metrics.ascent() / 2 - 1), words)

    def _corners(self, plot: QRectF, curve: Curve, factor: float = 1.0) -> list[QPointF]:
        """Flat between the steps, and on to where nothing more can be had."""
        found: list[QPointF] = []
        axis = self.axis
        for point in curve.points:
            spot = QPointF(axis.x(point.vram), self._y(plot, point.tokens_per_s * factor))
            if found:
                found.append(QPointF(spot.x(), found[-1].y()))
            found.append(spot)
        if found:
            found.append(QPointF(self._end(curve), found[-1].y()))
        return found

    def _end(self, curve: Curve) -> float:
        """Return where a line ends."""
        model = self._model
        last = curve.points[-1].vram if curve.points else 0
        return self.axis.x(max(last, model.limit if model is not None else 0))

    def _paint_band(self, painter: QPainter, plot: QRectF, model: BudgetModel) -> None:
        low = self._corners(plot, model.main, 1 - model.spread)
        high = self._corners(plot, model.main, 1 + model.spread)
        colour = QColor(current().accent)
        colour.setAlpha(_BAND)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colour)
        painter.drawPolygon([*high, *reversed(low)])

    def _paint_others(self, painter: QPainter, plot: QRectF, model: BudgetModel) -> None:
        for index, curve in enumerate(model.curves[1:], 1):
            painter.setPen(_pen(index))
            painter.drawPolyline(self._corners(plot, curve))

    def _paint_knee(self, painter: QPainter, plot: QRectF, model: BudgetModel) -> None:
        """Paint a line and its name: here Auto stands."""
        if not model.points:
            return
        ink = QColor(current().text)
        x = round(self.axis.x(model.knee)) + 0.5
        painter.setPen(QPen(ink, 1, Qt.PenStyle.DotLine))
        painter.drawLine(QPointF(x, plot.top()), QPointF(x, plot.bottom()))
        words = tr("Auto: {size}").format(size=memory(model.knee))
        left = x - 8 - self.small_metrics.horizontalAdvance(words)
        left = x + 8 if left < plot.left() else left
        base = plot.bottom() - self.small_metrics.descent() - 2
        self._chip(painter, left, base, words, ink)

    def _paint_forbidden(self, painter: QPainter, plot: QRectF, model: BudgetModel) -> None:
        start = self.axis.x(model.limit)
        if start >= plot.right():
            return
        tokens = current()
        zone = QRectF(start, plot.top(), plot.right() - start, plot.height())
        veil = QColor(tokens.sunken)
        veil.setAlpha(_VEIL)
        painter.fillRect(zone, veil)
        painter.fillRect(zone, hatch(QColor(tokens.border_strong)))
        painter.setPen(QPen(QColor(tokens.muted), 1))
        painter.drawLine(zone.topLeft(), zone.bottomLeft())

    def _paint_names(self, painter: QPainter, plot: QRectF, model: BudgetModel) -> None:
        """Modes at the ends of their lines, one below the other where these are close."""
        height = self.small_metrics.height()
        drawn = [
            (each.at(model.limit) or each.points[0], each.mode)
            for each in model.curves
            if each.points
        ]
        ends = sorted((self._y(plot, point.tokens_per_s), mode) for point, mode in drawn)
        bottom = plot.bottom() - height / 2
        floor = bottom - height * (len(ends) - 1)
        last = -math.inf
        x = min(self.axis.x(model.limit), plot.right())
        for index, (y, mode) in enumerate(ends):
            last = min(max(y, last + height), floor + index * height)
            words = mode_name(mode)
            main = mode is model.main.mode
            ink = QColor(current().accent if main else current().muted)
            base = last - height / 2 + self.small_metrics.ascent()
            self._chip(painter, x + _ASIDE, base, words, ink)

    def _chip(self, painter: QPainter, left: float, base: float, words: str, ink: QColor) -> None:
        """Words on a ground of their own, so that no line runs through them."""
        metrics = self.small_metrics
        box = QRectF(
            left, base - metrics.ascent(), metrics.horizontalAdvance(words), metrics.height()
        )
        painter.fillRect(box.adjusted(-_CHIP, 0, _CHIP, 0), QColor(ground(self, current())))
        painter.setFont(self.small)
        painter.setPen(ink)
        painter.drawText(QPointF(left, base), words)

    def _spot(self, plot: QRectF, seen: MeasuredPoint) -> QPointF:
        return QPointF(self.axis.x(seen.vram), self._y(plot, seen.tokens_per_s))

    def _paint_dot(self, painter: QPainter, plot: QRectF, seen: MeasuredPoint) -> None:
        """Filled where it was measured in the mode that the budget leads to."""
        model, tokens = self._model, current()
        point = model.at(seen.vram) if model is not None else None
        same = point is not None and point.mode is seen.mode
        painter.setPen(QPen(QColor(tokens.text), 1.5))
        painter.setBrush(QColor(tokens.text if same else ground(self, tokens)))
        painter.drawEllipse(self._spot(plot, seen), _DOT, _DOT)

    def paint_over(self, painter: QPainter) -> None:
        """The budget: a line, and a dot with the speed."""
        model, plot = self._model, self._plot
        point = model.at(self._budget) if model is not None else None
        if model is None or point is None or not model.total:
            return
        tokens = current()
        x = self.axis.x(model.steps[model.index(self._budget)])
        spot = QPointF(x, self._y(plot, point.tokens_per_s))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(tokens.accent), 1))
        painter.drawLine(QPointF(spot.x(), plot.top()), QPointF(spot.x(), plot.bottom()))
        painter.setPen(QPen(QColor(tokens.surface), 2))
        painter.setBrush(QColor(tokens.accent))
        painter.drawEllipse(spot, _DOT + 2, _DOT + 2)
        words = tokens_per_s(point.tokens_per_s, about=True)
        metrics = self.title_metrics
        width = metrics.horizontalAdvance(words)
        left = spot.x() - 10 - width
        left = spot.x() + 10 if left < plot.left() else left
        base = max(spot.y() - 8, plot.top() + metrics.ascent())
        box = QRectF(left - 3, base - metrics.ascent(), width + 6, metrics.height())
        painter.fillRect(box, QColor(ground(self, tokens)))
        painter.setFont(self.title)
        painter.setPen(QColor(tokens.text))
        painter.drawText(QPointF(left, base), words)

    # -- the mouse -------------------------------------------------------------------------

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """The curve is as good as the slider."""
        super().mousePressEvent(event)
        if event.button() is Qt.MouseButton.LeftButton:
            self.pointed.emit(self.axis.vram(event.position().x() - SIDE))
            event.accept()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Follow the mouse."""
        if event.buttons() & Qt.MouseButton.LeftButton:
            self.pointed.emit(self.axis.vram(event.position().x() - SIDE))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Let go."""
        if event.button() is Qt.MouseButton.LeftButton:
            self.let_go.emit()

    def words_at(self, place: QPointF) -> str:
        """Return what was measured at a place, or what a budget would give."""
        model, plot = self._model, self._plot
        if model is None:
            return ""
        inside = place - QPointF(SIDE, TOP)
        near = [
            (distance, index)
            for index, seen in enumerate(model.measured)
            if (distance := QLineF(self._spot(plot, seen), inside).length()) <= _NEAR
        ]
        if near:
            return measured_words(model.measured[min(near)[1]])
        if not plot.contains(inside) or not model.points:
            return ""
        return sentence(model, model.steps[model.nearest(self.axis.vram(inside.x()))])


def _ticks(model: BudgetModel | None) -> list[float]:
    """Speeds at which lines are drawn; the last one is the top."""
    best = 1.0
    if model is not None:
        speeds = [point.tokens_per_s for curve in model.curves for point in curve.points]
        speeds += [each.tokens_per_s for each in model.measured]
        speeds += [model.range_of(point)[1] for point in model.points]
        best = max(speeds, default=1.0)
    step = round_step(best, _TICKS)
    return [place * step for place in range(math.ceil(best / step - 1e-9) + 1)]


def _pen(index: int) -> QPen:
    """Return the pen for the line of a mode, that of the wish first."""
    if not index:
        return QPen(QColor(current().accent), 2)
    return QPen(QColor(current().muted), 1, _DASHES[(index - 1) % len(_DASHES)])


def _line_sample(pen: QPen, painter: QPainter, area: QRectF) -> None:
    painter.setPen(pen)
    painter.drawLine(
        QPointF(area.left(), area.center().y()), QPointF(area.right(), area.center().y())
    )
