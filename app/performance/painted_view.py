"""What the panel's painted widgets share: type, colours, the header line, the hatch."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QFont, QFontMetricsF, QPainter, QPalette, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.theme.theme import current
from app.theme.tokens import Tokens

Align = Qt.AlignmentFlag
_LEFT = Align.AlignLeft | Align.AlignVCenter
_RIGHT = Align.AlignRight | Align.AlignVCenter


class PaintedView(QWidget):
    """A widget that draws itself at a height that follows from its font.

    Subclasses say how high they are in `height_for` and what they show in `describe`.
    """

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMinimumWidth(240)
        self._set_fonts()

    def _set_fonts(self) -> None:
        self.small = _font(self.font(), 0.86)
        self.title = _font(self.font(), 0.92, QFont.Weight.DemiBold)
        self.large = _font(self.font(), 1.5, QFont.Weight.DemiBold)
        self.small_metrics = QFontMetricsF(self.small)
        self.title_metrics = QFontMetricsF(self.title)
        self.large_metrics = QFontMetricsF(self.large)

    def height_for(self, width: int) -> int:
        """The height needed at a width, in logical pixels."""
        raise NotImplementedError

    def describe(self) -> str:
        """What is to be seen, in words."""
        raise NotImplementedError

    def sizeHint(self) -> QSize:  # noqa: N802
        """As wide as a narrow panel."""
        return QSize(280, self.height_for(max(self.width(), 280)))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Keep the height that goes with the width."""
        super().resizeEvent(event)
        self.setFixedHeight(self.height_for(self.width()))

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Follow the font and the theme."""
        super().changeEvent(event)
        if event.type() in {QEvent.Type.FontChange, QEvent.Type.StyleChange}:
            self._set_fonts()
            self.setFixedHeight(self.height_for(self.width()))
        if event.type() is QEvent.Type.PaletteChange:
            self.update()

    @property
    def header_height(self) -> float:
        """The height of the line with title and value."""
        return self.title_metrics.height() + 4

    def paint_header(self, painter: QPainter, title: str, value: str, note: str = "") -> None:
        """Title on the left with a muted note behind it, value on the right."""
        tokens = current()
        line = QRectF(0, 0, self.width(), self.title_metrics.height())
        painter.setFont(self.title)
        painter.setPen(QColor(tokens.text))
        painter.drawText(line, _LEFT, title)
        painter.drawText(line, _RIGHT, value)
        left = self.title_metrics.horizontalAdvance(title) + 8
        room = line.width() - left - self.title_metrics.horizontalAdvance(value) - 8
        if note and self.small_metrics.horizontalAdvance(note) <= room:
            painter.setFont(self.small)
            painter.setPen(QColor(tokens.muted))
            painter.drawText(line.adjusted(left, 0, 0, 0), _LEFT, note)

    def paint_empty(self, painter: QPainter, area: QRectF, text: str) -> None:
        """Say why there is nothing to see."""
        painter.setFont(self.small)
        painter.setPen(QColor(current().muted))
        painter.drawText(area, Align.AlignCenter | Qt.TextFlag.TextWordWrap, text)


def blend(colour: str, background: str, share: float) -> QColor:
    """`share` of `colour` over `background`, opaque."""
    over, under = QColor(colour), QColor(background)
    mixed = (
        round(share * a + (1 - share) * b)
        for a, b in zip(over.getRgb()[:3], under.getRgb()[:3], strict=True)  # type: ignore[index]
    )
    return QColor(*mixed)


def ground(widget: QWidget, tokens: Tokens) -> str:
    """The colour the widget lies on."""
    colour = widget.palette().color(QPalette.ColorRole.Window)
    return colour.name() if colour.isValid() else tokens.window


def hatch(colour: QColor) -> QBrush:
    """Diagonal lines: the mark of the draft, and of what was rejected."""
    return QBrush(colour, Qt.BrushStyle.BDiagPattern)


def _font(base: QFont, factor: float, weight: QFont.Weight | None = None) -> QFont:
    font = QFont(base)
    if font.pointSizeF() > 0:
        font.setPointSizeF(font.pointSizeF() * factor)
    else:
        font.setPixelSize(max(round(font.pixelSize() * factor), 1))
    if weight is not None:
        font.setWeight(weight)
    # Figures of one width, so that changing numbers do not make the line tremble.
    font.setFeature(QFont.Tag("tnum"), 1)
    return font
