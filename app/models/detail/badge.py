"""The badge of a list as a widget of its own: sign, words and colour, the reason in its tooltip."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QRectF, QSize
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.models.list.delegate import badge_size, draw_badge
from app.models.list.row import RowBadge


class BadgeLabel(QWidget):
    """Shows a mark, or nothing."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.mark: RowBadge | None = None
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def show_mark(self, mark: RowBadge | None) -> None:
        """Show another badge, or none."""
        self.mark = mark
        self.setVisible(mark is not None)
        self.setAccessibleName(mark.text if mark is not None else "")
        self.setAccessibleDescription(mark.tip if mark is not None else "")
        self.setToolTip(mark.tip if mark is not None else "")
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        """Return the size of sign and words."""
        return badge_size(self.mark, self.font()) if self.mark is not None else QSize(0, 0)

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """Draw the badge as in a list."""
        if self.mark is not None:
            painter = QPainter(self)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            draw_badge(painter, QRectF(self.rect()), self.mark, self.font())
            painter.end()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Larger texts need more room."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.FontChange:
            self.updateGeometry()
