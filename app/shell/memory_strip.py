"""The line itself: a bar with numbers for each memory, across the window's whole width.

It is drawn anew only when a pixel or a word of it changes: samples come twice a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QFontMetricsF,
    QHelpEvent,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPixmap,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractButton, QMenu, QSizePolicy, QToolTip, QWidget

from app.shell import memory_texts
from app.shell.memory_devices import Shown, shown
from app.shell.memory_tables import of_held
from app.shell.memory_texts import Verbosity
from app.theme.fonts import keep_font, keep_sized, scaled, sized
from app.theme.theme import current
from app.widgets.memory_parts import MemoryPart
from app.widgets.stack_bar import paint_stack
from engine.events import DeviceSample, MachineFound, MemoryHeld
from engine.language import tr
from engine.machine.facts import Machine

HEIGHT = 24
_BAR = 9
_SIDE, _GAP, _BETWEEN = 12, 8, 28
_LEAST_BAR = {Verbosity.AMPLE: 220, Verbosity.USUAL: 110, Verbosity.SCARCE: 0}
_SMALL = 0.86


@dataclass(frozen=True, slots=True)
class Field:
    """One memory as it is drawn; all in whole pixels, so that equal ones look the same."""

    left: int
    amount: str
    bar_left: int
    bar_right: int
    free: str
    right: int
    edges: tuple[tuple[MemoryPart, int, int], ...]


class MemoryStrip(QAbstractButton):
    """A click, Enter or the space bar asks for the tuning page, there for the details."""

    details_asked = Signal()
    told = Signal()
    """The model's memory has changed."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._sample: DeviceSample | None = None
        self._machine: Machine | None = None
        self.held: MemoryHeld | None = None
        self.fields: tuple[Field, ...] = ()
        """The fields that are drawn."""
        self._picture: QPixmap | None = None
        self.drawn = 0
        """Number of times that the picture was drawn."""
        self.setAccessibleName(tr("Memory in use"))
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        keep_font(self, lambda: sized(_SMALL))
        keep_sized(self, self._take_height)
        self._describe()

    # -- what is known ---------------------------------------------------------------------

    @property
    def shown(self) -> tuple[Shown, ...]:
        """The memories that are on show."""
        return shown(self._sample, self.held, self._machine)

    def take_sample(self, sample: DeviceSample) -> None:
        """The newest word of what the machine does."""
        self._sample = sample
        self._follow()

    def take_machine(self, found: MachineFound) -> None:
        """Take the machine that a load has found."""
        self._machine = found.machine
        self._follow()

    def take_held(self, held: MemoryHeld) -> None:
        """The newest word of what the model holds."""
        self.held = held
        self._follow()
        self.told.emit()

    def _follow(self) -> None:
        """Draw anew if something looks otherwise."""
        fields = self._laid_out()
        if fields == self.fields:
            return
        self.fields = fields
        self._describe()
        self._forget_picture()

    def _describe(self) -> None:
        said = memory_texts.describe(self.shown)
        if said != self.accessibleDescription():
            self.setAccessibleDescription(said)

    # -- the picture -----------------------------------------------------------------------

    def _laid_out(self) -> tuple[Field, ...]:
        """Return where everything stands, with as many words as there is room for."""
        every = self.shown
        if not every:
            return ()
        metrics = QFontMetricsF(self.font())
        width = (self.width() - 2 * _SIDE - (len(every) - 1) * _BETWEEN) // len(every)
        for room in Verbosity:
            fields = tuple(
                self._field(each, room, metrics, _SIDE + place * (width + _BETWEEN), width)
                for place, each in enumerate(every)
            )
            if all(f.bar_right - f.bar_left >= scaled(_LEAST_BAR[room]) for f in fields):
                break
        return fields

    def _field(
        self, each: Shown, room: Verbosity, metrics: QFontMetricsF, left: int, width: int
    ) -> Field:
        amount, free = memory_texts.amount(each, room), memory_texts.free(each, room)
        # Where two numbers take turns, the bar should not move.
        widest = memory_texts.amount_at_most(each, room)
        begin = left + round(metrics.horizontalAdvance(widest)) + _GAP
        kept = scaled(84) + _GAP if free else 0
        end = max(left + width - kept, begin)
        edges = tuple((s.part, a, b) for s, a, b in each.stack.edges(end - begin) if b > a)
        return Field(left, amount, begin, end, free, left + width, edges)

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """The kept picture and the focus ring."""
        if self._picture is None:
            self._picture = self._draw()
        painter = QPainter(self)
        painter.drawPixmap(0, 0, self._picture)
        if self.hasFocus():
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(QPen(QColor(current().accent), 2))
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 5, 5)
        painter.end()

    def _draw(self) -> QPixmap:
        self.drawn += 1
        tokens, scale = current(), self.devicePixelRatioF()
        picture = QPixmap(self.size() * scale)
        picture.setDevicePixelRatio(scale)
        picture.fill(QColor(tokens.hover if self.underMouse() else tokens.sidebar))
        painter = QPainter(picture)
        painter.fillRect(QRectF(0, 0, self.width(), 1), QColor(tokens.border))
        painter.setFont(self.font())
        height = scaled(_BAR)
        top = (self.height() + 1 - height) // 2
        for field, each in zip(self.fields, self.shown, strict=False):
            line = QRectF(field.left, 1, field.right - field.left, self.height() - 1)
            painter.setPen(QColor(tokens.muted))
            upright = Qt.AlignmentFlag.AlignVCenter
            painter.drawText(line, upright | Qt.AlignmentFlag.AlignLeft, field.amount)
            painter.drawText(line, upright | Qt.AlignmentFlag.AlignRight, field.free)
            width = field.bar_right - field.bar_left
            paint_stack(painter, QRectF(field.bar_left, top, width, height), each.stack)
        painter.end()
        return picture

    def _forget_picture(self) -> None:
        self._picture = None
        self.update()

    def _take_height(self) -> None:
        self.setFixedHeight(scaled(HEIGHT))
        self._relay()

    def _relay(self) -> None:
        """Lay out anew for another size, font or theme."""
        self.fields = self._laid_out()
        self._forget_picture()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Longer or shorter words."""
        super().resizeEvent(event)
        self._relay()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Follow the font and the theme."""
        super().changeEvent(event)
        if event.type() in {QEvent.Type.FontChange, QEvent.Type.PaletteChange}:
            self._relay()

    def sizeHint(self) -> QSize:  # noqa: N802
        """Return a size of fixed height, and any width."""
        return QSize(0, scaled(HEIGHT))

    # -- asking ----------------------------------------------------------------------------

    def event(self, event: QEvent) -> bool:
        """The tooltip is put together when it is wanted; another screen may be finer."""
        if event.type() in {
            QEvent.Type.HoverEnter,
            QEvent.Type.HoverLeave,
            QEvent.Type.DevicePixelRatioChange,
        }:
            self._forget_picture()
        if isinstance(event, QHelpEvent) and event.type() is QEvent.Type.ToolTip:
            QToolTip.showText(event.globalPos(), self.tip(), self)
            return True
        return super().event(event)

    def tip(self) -> str:
        """Return the text of the tooltip."""
        lines = [_as_html(each) for each in self.shown]
        if self.held is not None and self.held.devices:
            lines.append(f"<p>{escape(memory_texts.error_in_words(self.held.typical_error))}</p>")
        hint = tr("Click to tune; click there again for the details.")
        lines.append(f"<p>{escape(hint)}</p>")
        return "".join(lines)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Enter does what a click does."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and not event.isAutoRepeat():
            self.click()
        else:
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802
        """Open a menu with details and tuning."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addAction(tr("Memory in detail"), self.details_asked.emit)
        menu.addAction(tr("Tuning"), self.click)
        by_mouse = event.reason() is QContextMenuEvent.Reason.Mouse
        place = event.globalPos() if by_mouse else self.mapToGlobal(QPointF(_SIDE, 0)).toPoint()
        menu.popup(place)


def _as_html(each: Shown) -> str:
    """A memory: what it is full of, and what of that was predicted."""
    parts = "<br>".join(map(escape, memory_texts.parts_in_words(each)))
    heading = f"<p><b>{escape(memory_texts.name_of(each))}</b><br>{parts}</p>"
    table = of_held((each,))
    if not table.rows:
        return heading
    head = "".join(f"<th align=left>{escape(name)}&nbsp;&nbsp;</th>" for name in table.columns[1:])
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}&nbsp;&nbsp;</td>" for cell in row[1:]) + "</tr>"
        for row in table.rows
    )
    return f"{heading}<table><tr>{head}</tr>{rows}</table>"
