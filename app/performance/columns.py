"""Parts side by side where there is room for two, else below each other."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QGridLayout, QWidget

from app.theme.fonts import scaled

_GAP_X = 24
_GAP_Y = 12


class Columns(QWidget):
    """One column or two, filled row by row with the parts that are not hidden.

    Args:
        parts: the parts in order of reading.
        narrowest: logical pixels that a column needs.
    """

    def __init__(
        self, parts: Sequence[QWidget], narrowest: int, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._parts, self._narrowest = list(parts), narrowest
        for part in self._parts:
            part.setParent(self)
        self.columns = 1
        self._arranged: tuple[object, ...] = ()
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(_GAP_X)
        self._grid.setVerticalSpacing(_GAP_Y)
        self.arrange()

    @property
    def shown(self) -> list[QWidget]:
        """The parts that are not hidden."""
        return [part for part in self._parts if not part.isHidden()]

    def arrange(self) -> None:
        """Put the parts where they belong; needed again when one is hidden or shown."""
        two = self.width() >= 2 * scaled(self._narrowest) + _GAP_X
        self.columns = 2 if two else 1
        wanted = (self.columns, *self.shown)
        if wanted == self._arranged:
            return
        self._arranged = wanted
        for part in self._parts:
            self._grid.removeWidget(part)
        for place, part in enumerate(self.shown):
            row, column = divmod(place, self.columns)
            self._grid.addWidget(part, row, column, Qt.AlignmentFlag.AlignTop)
        for column in range(2):
            self._grid.setColumnStretch(column, int(column < self.columns))

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Return the width of one column: that of two would keep the page from getting narrower."""
        widths = (part.minimumSizeHint().width() for part in self.shown)
        widest = max((*widths, *(part.minimumWidth() for part in self.shown)), default=0)
        return QSize(widest, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Arrange anew: another width may have room for another number of columns."""
        super().resizeEvent(event)
        self.arrange()
