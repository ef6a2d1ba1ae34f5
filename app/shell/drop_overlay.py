"""A sheet over the page that says what becomes of the files that are dragged over the window."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QMimeData, QObject, QRectF, Qt
from PySide6.QtGui import QColor, QDropEvent, QFontMetricsF, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from app.theme.icons import icon
from app.theme.theme import current
from app.theme.tokens import RADIUS
from app.widgets.painting import shortened

_MARGIN = 12
_ICON = 40
_GAP = 12
_OPAQUE = 248
_LARGER = 1.25


class DropOverlay(QWidget):
    """Shown while files are dragged; what is below it takes the drop, as it would without.

    Args:
        area: what is covered.
        words: says what a drop would do; "" where it would do nothing.
    """

    def __init__(self, area: QWidget, words: Callable[[QMimeData], str]) -> None:
        super().__init__(area)
        self._area, self._words = area, words
        self.text = ""
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()
        area.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Follow a drag over the window's `QWindow`, which hears of it wherever the pointer is."""
        match event.type():
            case QEvent.Type.DragEnter if isinstance(event, QDropEvent):
                self._show(self._words(event.mimeData()))
            case QEvent.Type.DragLeave | QEvent.Type.Drop:
                self._show("")
            case QEvent.Type.Resize if watched is self._area:
                self.setGeometry(self._area.rect())
        return super().eventFilter(watched, event)

    def _show(self, text: str) -> None:
        self.text = text
        self.setAccessibleName(text)
        self.setGeometry(self._area.rect())
        self.setVisible(bool(text))
        self.raise_()

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """Draw the sheet, its dashed edge, an icon and the words below it."""
        tokens = current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        ground = QColor(tokens.accent_soft)
        ground.setAlpha(_OPAQUE)
        painter.setBrush(ground)
        painter.setPen(QPen(QColor(tokens.accent), 2, Qt.PenStyle.DashLine))
        sheet = QRectF(self.rect()).adjusted(_MARGIN, _MARGIN, -_MARGIN, -_MARGIN)
        painter.drawRoundedRect(sheet, 2 * RADIUS, 2 * RADIUS)
        font = self.font()
        font.setPointSizeF(font.pointSizeF() * _LARGER)
        line = QFontMetricsF(font).height()
        top = sheet.center().y() - (_ICON + _GAP + line) / 2
        mark = QRectF(sheet.center().x() - _ICON / 2, top, _ICON, _ICON)
        icon("import", tokens.accent).paint(painter, mark.toRect())
        room = QRectF(sheet.left() + _GAP, mark.bottom() + _GAP, sheet.width() - 2 * _GAP, line)
        painter.setFont(font)
        painter.setPen(QColor(tokens.text))
        said = shortened(self.text, font, room.width())
        painter.drawText(room, Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignVCenter, said)
        painter.end()
