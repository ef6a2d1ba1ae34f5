"""The base of all painted widgets: a kept picture, fonts, the header line, focus, menu."""

from __future__ import annotations

from functools import lru_cache

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QBrush,
    QColor,
    QContextMenuEvent,
    QFont,
    QFontMetricsF,
    QGuiApplication,
    QHelpEvent,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QPalette,
    QPen,
    QPixmap,
    QResizeEvent,
)
from PySide6.QtWidgets import QMenu, QSizePolicy, QToolTip, QWidget

from app.theme.theme import current
from app.theme.tokens import Tokens
from app.widgets.table import Table, as_text
from app.widgets.terms import explained
from engine.language import tr

Align = Qt.AlignmentFlag
_LEFT = Align.AlignLeft | Align.AlignVCenter
_RIGHT = Align.AlignRight | Align.AlignVCenter
SIDE = 8
"""Room at the sides, in which the focus ring lies."""
TOP = 6
"""Room above and below."""
_RING = 2


class Painted(QWidget):
    """A widget that draws itself at a height that follows from its font.

    Subclasses say how high they are (`height_for`), what they show (`paint`, `describe`, `table`,
    `words_at`) and what is drawn over it (`paint_over`). The picture is drawn once and kept until
    `refresh`. What is painted has the coordinates of the area inside the margins, which is `room`
    wide.
    """

    table_asked = Signal()

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._picture: QPixmap | None = None
        self.setAccessibleName(name)
        self.setToolTip(explained(name))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMinimumWidth(240)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        # Nothing below is painted first: the picture covers all.
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.set_fonts()

    def set_fonts(self) -> None:
        """Derive everything from the widget's font."""
        self.small = _font(self.font(), 0.86)
        self.title = _font(self.font(), 0.92, QFont.Weight.DemiBold)
        self.headline = _font(self.font(), 1.0, QFont.Weight.DemiBold)
        self.large = _font(self.font(), 1.5, QFont.Weight.DemiBold)
        self.small_metrics = QFontMetricsF(self.small)
        self.title_metrics = QFontMetricsF(self.title)
        self.large_metrics = QFontMetricsF(self.large)

    # -- what subclasses say ---------------------------------------------------------------

    def height_for(self, room: float) -> float:
        """The height needed in a room so wide, in logical pixels."""
        raise NotImplementedError

    def describe(self) -> str:
        """Return the content in words."""
        raise NotImplementedError

    def table(self) -> Table:
        """Return the content in numbers."""
        raise NotImplementedError

    def paint(self, painter: QPainter) -> None:
        """Draw the picture."""
        raise NotImplementedError

    def words_at(self, place: QPointF) -> str:  # noqa: ARG002
        """Return the tooltip for a place of the widget; by default all of it has the same."""
        return self.toolTip()

    def paint_over(self, painter: QPainter) -> None:
        """Draw what moves with the cursor."""

    def key(self, key: Qt.Key) -> bool:  # noqa: ARG002
        """Act on a key; whether it means anything here."""
        return False

    # -- the picture -----------------------------------------------------------------------

    @property
    def room(self) -> float:
        """Width inside the margins."""
        return self.width() - 2 * SIDE

    def refresh(self) -> None:
        """Paint anew, at the height that the content needs now."""
        self._picture = None
        height = self._height(self.width())
        if height != self.height():
            self.setFixedHeight(height)
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """The kept picture, what lies over it, and the focus ring."""
        if self._picture is None:
            self._picture = self.blank(self.size())
            painter = QPainter(self._picture)
            painter.translate(SIDE, TOP)
            self.paint(painter)
            painter.end()
        painter = QPainter(self)
        painter.drawPixmap(0, 0, self._picture)
        if self.hasFocus():
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(QPen(QColor(current().accent), _RING))
            ring = QRectF(self.rect()).adjusted(1, 1, -1, -1)
            painter.drawRoundedRect(ring, SIDE, SIDE)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.translate(SIDE, TOP)
        self.paint_over(painter)
        painter.end()

    def blank(self, size: QSize) -> QPixmap:
        """Return an empty picture in the ground's colour, as fine as the screen."""
        scale = self.devicePixelRatioF()
        pixmap = QPixmap(size * scale)
        pixmap.setDevicePixelRatio(scale)
        pixmap.fill(QColor(ground(self, current())))
        return pixmap

    def sizeHint(self) -> QSize:  # noqa: N802
        """Return the width of a narrow panel."""
        return QSize(280, self._height(max(self.width(), 280)))

    def _height(self, width: int) -> int:
        return round(self.height_for(width - 2 * SIDE) + 2 * TOP)

    def resize_to_fit(self) -> None:
        """Take the height that goes with the width."""
        self.refresh()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Keep the height that goes with the width."""
        super().resizeEvent(event)
        self.resize_to_fit()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Follow the font and the theme."""
        super().changeEvent(event)
        if event.type() in {QEvent.Type.FontChange, QEvent.Type.StyleChange}:
            self.set_fonts()
            self.resize_to_fit()
        if event.type() is QEvent.Type.PaletteChange:
            self.refresh()

    def event(self, event: QEvent) -> bool:
        """Explain what is under the mouse; paint anew on another screen, which may be finer."""
        if isinstance(event, QHelpEvent) and event.type() is QEvent.Type.ToolTip:
            QToolTip.showText(event.globalPos(), self.words_at(QPointF(event.pos())), self)
            return True
        if event.type() is QEvent.Type.DevicePixelRatioChange:
            self.refresh()
        return super().event(event)

    # -- keyboard and menu -----------------------------------------------------------------

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Arrows and letters as `key` says; T shows the table."""
        if event.key() == Qt.Key.Key_T and not event.modifiers():
            self.table_asked.emit()
        elif event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier & ~(
            Qt.KeyboardModifier.ShiftModifier
        ) or not self.key(Qt.Key(event.key())):
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802
        """The numbers behind the picture."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addAction(tr("Show as table"), self.table_asked.emit)
        menu.addAction(tr("Copy as text"), self.copy)
        menu.popup(event.globalPos())

    def copy(self) -> None:
        """Put the table on the clipboard."""
        QGuiApplication.clipboard().setText(as_text(self.table()))

    # -- parts of pictures -----------------------------------------------------------------

    @property
    def header_height(self) -> float:
        """The height of the line with title and value."""
        return self.title_metrics.height() + 4

    def paint_title(self, painter: QPainter, title: str, note: str, taken: float) -> None:
        """Title on the left with a muted note behind it where `taken` pixels leave room."""
        tokens = current()
        line = QRectF(0, 0, self.room, self.title_metrics.height())
        painter.setFont(self.title)
        painter.setPen(QColor(tokens.text))
        painter.drawText(line, _LEFT, title)
        left = self.title_metrics.horizontalAdvance(title) + 8
        if note and self.small_metrics.horizontalAdvance(note) <= line.width() - left - taken:
            painter.setFont(self.small)
            painter.setPen(QColor(tokens.muted))
            painter.drawText(line.adjusted(left, 0, 0, 0), _LEFT, note)

    def paint_value(self, painter: QPainter, value: str, left: float) -> None:
        """Paint a value at the right end of the header, over whatever stands there.

        Where it needs more room than is right of `left`, it takes that of a title too.
        """
        width = self.title_metrics.horizontalAdvance(value) + 8
        line = QRectF(self.room - width, 0, width, self.title_metrics.height())
        cleared = line.united(QRectF(left, 0, 1, line.height()))
        painter.fillRect(cleared, QColor(ground(self, current())))
        painter.setFont(self.title)
        painter.setPen(QColor(current().text))
        painter.drawText(line, _RIGHT, value)


@lru_cache(maxsize=64)  # of every bar of every picture
def blend(colour: str, background: str, share: float) -> QColor:
    """`share` of `colour` over `background`, opaque."""
    over, under = QColor(colour), QColor(background)
    mixed = (
        round(share * a + (1 - share) * b)
        for a, b in zip(over.getRgb()[:3], under.getRgb()[:3], strict=True)  # type: ignore[index]
    )
    return QColor(*mixed)


_CARDS = ("section", "notice")


def ground(widget: QWidget, tokens: Tokens) -> str:
    """The colour the widget lies on: that of a card, or its window's."""
    above: QWidget | None = widget
    while above is not None:
        if above.property("look") in _CARDS:
            return tokens.surface
        above = above.parentWidget()
    colour = widget.palette().color(QPalette.ColorRole.Window)
    return colour.name() if colour.isValid() else tokens.window


def hatch(colour: QColor) -> QBrush:
    """Diagonal lines: the mark of the draft, and of what was rejected."""
    return QBrush(colour, Qt.BrushStyle.BDiagPattern)


def _font(base: QFont, factor: float, weight: QFont.Weight | None = None) -> QFont:
    font = QFont(base)
    font.setPointSizeF(font.pointSizeF() * factor)
    if weight is not None:
        font.setWeight(weight)
    # Figures of one width, so that changing numbers do not make the line tremble.
    font.setFeature(QFont.Tag("tnum"), 1)
    return font
