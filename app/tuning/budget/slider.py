"""The budget as a slider in GiB that stops only where something changes."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QFontMetricsF,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPixmap,
    QPolygonF,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QSizePolicy, QSlider, QWidget

from app.theme.theme import current
from app.tuning.budget.axis import Axis
from app.tuning.budget.model import BudgetModel
from app.widgets.painted import ground, hatch
from engine.language import tr

_HANDLE = 9
"""Radius."""
_GROOVE = 6
_MARK = 5
_TICK = 4
_BETWEEN = 24
"""Between the numbers below."""
_KEYS: dict[Qt.Key, Callable[[BudgetModel, int], int]] = {
    Qt.Key.Key_Left: lambda model, index: model.stepped(index, -1),
    Qt.Key.Key_Down: lambda model, index: model.stepped(index, -1),
    Qt.Key.Key_Right: lambda model, index: model.stepped(index, 1),
    Qt.Key.Key_Up: lambda model, index: model.stepped(index, 1),
    Qt.Key.Key_PageDown: lambda model, index: model.paged(index, -1),
    Qt.Key.Key_PageUp: lambda model, index: model.paged(index, 1),
    Qt.Key.Key_Home: lambda model, _index: min(0, model.last),
    Qt.Key.Key_End: lambda model, _index: model.last,
}


class BudgetSlider(QSlider):
    """Slider over the steps of the curve; its value is the number of a step.

    Where other programs have taken what the budget needs, the handle stays in the forbidden zone
    until somebody moves it; from there it only leads out.
    """

    moved = Signal(int)
    """The user chose a step."""
    settled = Signal()
    """The user let go after moving."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self._model: BudgetModel | None = None
        self._picture: QPixmap | None = None
        self._sides = (0.0, 0.0)
        self._showing = self._unsettled = False
        self.setAccessibleName(tr("GPU memory for Duotail, in GiB"))
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setTracking(True)
        self.valueChanged.connect(self._changed)

    # -- what is shown ---------------------------------------------------------------------

    def show_model(self, model: BudgetModel) -> None:
        """Show other steps, or another forbidden zone."""
        self._model = model
        self._showing = True
        self.setRange(0, max(len(model.steps) - 1, 0))
        self._showing = False
        self.setEnabled(bool(model.steps))
        self.refresh()

    def show_step(self, index: int) -> None:
        """Put the handle somewhere, without telling anybody."""
        self._showing = True
        self.setValue(max(index, 0))
        self._showing = False
        self.update()

    def set_sides(self, left: float, right: float) -> None:
        """Room beside the axis, as the curve above needs it."""
        if self._sides != (left, right):
            self._sides = left, right
            self.refresh()

    @property
    def axis(self) -> Axis:
        """Return where which budget is."""
        left = max(self._sides[0], _HANDLE + 2)
        right = max(self._sides[1], _HANDLE + 2)
        total = self._model.extent if self._model is not None else 0
        return Axis(total, left, max(self.width() - left - right, 1.0))

    def refresh(self) -> None:
        """Draw the ground anew."""
        self._picture = None
        self.update()

    # -- moving ----------------------------------------------------------------------------

    def move_to(self, vram: float) -> None:
        """Go to the nearest step, as the user wishes."""
        if self._model is not None:
            self._take(self._model.nearest(vram))

    def settle(self) -> None:
        """The user has let go."""
        if self._unsettled:
            self._unsettled = False
            self.settled.emit()

    def _take(self, index: int) -> None:
        if index >= 0:
            self.setValue(index)

    def _changed(self, value: int) -> None:
        """Follow a value, also where a screen reader sets it: only what fits can be chosen."""
        if self._showing or self._model is None:
            return
        allowed = min(value, self._model.last)
        if allowed != value:
            self.show_step(allowed)
        self._unsettled = True
        self.moved.emit(allowed)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Arrows go by steps, Page keys by GiB, Home and End to the ends of what fits."""
        plain = not event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        key = Qt.Key(event.key())
        if plain and key in _KEYS and self._model is not None:
            self._take(_KEYS[key](self._model, self.value()))
            event.accept()
        else:
            event.ignore()

    def keyReleaseEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Settle the value when a key is released; one that is kept down goes on."""
        if not event.isAutoRepeat():
            self.settle()
        super().keyReleaseEvent(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        """End dragging, as the focus has left."""
        super().focusOutEvent(event)
        self.settle()
        self.update()

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        """Show the ring."""
        super().focusInEvent(event)
        self.update()

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Wherever it is pressed, there the handle goes."""
        if event.button() is Qt.MouseButton.LeftButton:
            self.move_to(self.axis.vram(event.position().x()))
            event.accept()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Follow the mouse from step to step."""
        if event.buttons() & Qt.MouseButton.LeftButton:
            self.move_to(self.axis.vram(event.position().x()))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Let go."""
        if event.button() is Qt.MouseButton.LeftButton:
            self.settle()

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """The wheel scrolls the page."""
        event.ignore()

    # -- looks -----------------------------------------------------------------------------

    def sizeHint(self) -> QSize:  # noqa: N802
        """High enough for the handle and the numbers below it."""
        return QSize(240, round(self._top + _TICK + QFontMetricsF(self.font()).height() + 2))

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Return a small width at the usual height."""
        return QSize(120, self.sizeHint().height())

    @property
    def _middle(self) -> float:
        return _MARK + _HANDLE + 3

    @property
    def _top(self) -> float:
        """Return the top of the ticks."""
        return self._middle + _HANDLE + 3

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """The kept ground, and the handle on it."""
        if self._picture is None:
            self._picture = self._ground()
        painter = QPainter(self)
        painter.drawPixmap(0, 0, self._picture)
        model = self._model
        if model is not None and model.steps:
            self._paint_handle(painter, self.axis.x(model.steps[self.value()]))
        painter.end()

    def _paint_handle(self, painter: QPainter, x: float) -> None:
        tokens, axis = current(), self.axis
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(tokens.accent))
        y = self._middle - _GROOVE / 2
        painter.drawRoundedRect(QRectF(axis.left, y, max(x - axis.left, 0), _GROOVE), 3, 3)
        painter.setPen(QPen(QColor(tokens.surface), 2))
        painter.drawEllipse(QPointF(x, self._middle), _HANDLE, _HANDLE)
        if self.hasFocus():
            painter.setPen(QPen(QColor(tokens.text), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawEllipse(QPointF(x, self._middle), _HANDLE, _HANDLE)

    def _ground(self) -> QPixmap:
        scale, tokens = self.devicePixelRatioF(), current()
        pixmap = QPixmap(self.size() * scale)
        pixmap.setDevicePixelRatio(scale)
        pixmap.fill(QColor(ground(self, tokens)))
        model = self._model
        if model is None or not model.total:
            return pixmap
        axis, painter = self.axis, QPainter(pixmap)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        groove = QRectF(axis.left, self._middle - _GROOVE / 2, axis.width, _GROOVE)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(tokens.border_strong))
        painter.drawRoundedRect(groove, _GROOVE / 2, _GROOVE / 2)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        self._paint_forbidden(painter, axis, axis.x(model.limit))
        if model.points:
            self._paint_knee(painter, axis.x(model.knee))
        self._paint_numbers(painter, axis)
        painter.end()
        return pixmap

    def _paint_numbers(self, painter: QPainter, axis: Axis) -> None:
        """Ticks with their numbers; the last one says the unit, if there is room for it."""
        metrics, top = QFontMetricsF(self.font()), self._top
        painter.setFont(self.font())
        painter.setPen(QColor(current().muted))
        base, end = top + _TICK + metrics.ascent(), 0.0
        ticks = axis.ticks(metrics.horizontalAdvance("00.0") + _BETWEEN)
        unit = tr("{n} MiB") if axis.in_mib else tr("{n} GiB")
        for place, (x, words) in enumerate(ticks, 1):
            painter.drawLine(QPointF(round(x), top), QPointF(round(x), top + _TICK - 1))
            said = unit.format(n=words) if place == len(ticks) else words
            left = min(
                x - metrics.horizontalAdvance(words) / 2,
                self.width() - metrics.horizontalAdvance(said),
            )
            if left < end + _BETWEEN / 3:
                said, left = words, x - metrics.horizontalAdvance(words) / 2
            painter.drawText(QPointF(left, base), said)
            end = left + metrics.horizontalAdvance(said)

    def _paint_forbidden(self, painter: QPainter, axis: Axis, start: float) -> None:
        """Hatched, with a line where it begins."""
        if start >= axis.right:
            return
        tokens = current()
        zone = QRectF(start, self._middle - _HANDLE, axis.right - start, 2 * _HANDLE)
        painter.fillRect(zone, QColor(tokens.sunken))
        painter.fillRect(zone, hatch(QColor(tokens.muted)))
        painter.setPen(QPen(QColor(tokens.muted), 1))
        painter.drawLine(zone.topLeft(), zone.bottomLeft())

    def _paint_knee(self, painter: QPainter, x: float) -> None:
        """Paint a small triangle above the groove."""
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(current().text))
        y = self._middle - _HANDLE - 2
        points = [QPointF(x - _MARK, y - _MARK), QPointF(x + _MARK, y - _MARK), QPointF(x, y)]
        painter.drawPolygon(QPolygonF(points))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """The ground goes with the width."""
        super().resizeEvent(event)
        self.refresh()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Follow the font and the theme."""
        super().changeEvent(event)
        kinds = QEvent.Type
        if event.type() in {kinds.FontChange, kinds.StyleChange, kinds.PaletteChange}:
            self.updateGeometry()
            self.refresh()
