"""The frame of all pages but the chat: a line with the title, and a column that scrolls."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from app.theme.fonts import scaled
from app.theme.icons import IconButton
from app.widgets.boxes import Spacing, hbox, vbox
from app.widgets.scroller import scroller
from app.widgets.tab_order import tab_before
from engine.language import tr

_SIDE = 24
_GAP = 16


class PageFrame(QWidget):
    """A page: subclasses put their parts into `column` and their buttons into `header`.

    Args:
        title: the page's title, translated.
        widest: logical pixels that the column is wide at most, in the middle of what there is;
            None: as wide as the page.
    """

    sidebar_asked = Signal()
    closed = Signal()
    """Back to the chat."""

    def __init__(
        self, title: str, parent: QWidget | None = None, *, widest: int | None = None
    ) -> None:
        super().__init__(parent)
        self._widest = widest
        self.setProperty("look", "page")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName(title)
        sidebar = IconButton("sidebar", tr("Show or hide the conversations"), self)
        self.back = IconButton("close", tr("Back to the chat"), self, shortcut="Esc")
        heading = QLabel(title, self)
        heading.setProperty("look", "title")
        self.header = hbox(sidebar, Spacing(6), (heading, 1), self.back, margins=(10, 8, 10, 8))
        self._inside = QWidget(self)
        self.column = vbox(to=self._inside, spacing=_GAP, margins=(_SIDE, 4, _SIDE, _SIDE))
        self.scroller = scroller(self._inside, self)
        self.foot = QVBoxLayout()
        """Widgets that stay below the column, however that is scrolled."""
        vbox(self.header, (self.scroller, 1), self.foot, to=self, spacing=0, margins=0)
        sidebar.clicked.connect(self.sidebar_asked)
        self.back.clicked.connect(self.closed)

    def keep_whole(self) -> None:
        """The column fills the page and does not scroll: its parts do so themselves."""
        self.scroller.takeWidget()
        self.scroller.hide()
        layout = self.layout()
        assert isinstance(layout, QVBoxLayout)  # noqa: S101 - made in the beginning
        layout.insertWidget(1, self._inside, 1)
        self._inside.show()

    @property
    def body(self) -> QWidget:
        """Area between the line with the title and the foot."""
        return self._inside if self.scroller.widget() is None else self.scroller

    def add_to_header(self, widget: QWidget) -> None:
        """Put something into the line with the title, left of the last button."""
        self.header.insertWidget(self.header.count() - 1, widget)
        tab_before(self.back, [widget])

    def take_keyboard(self) -> None:
        """The page was opened: give the keyboard to what is used first."""
        self.back.setFocus(Qt.FocusReason.OtherFocusReason)

    @property
    def side(self) -> int:
        """Logical pixels left and right of the column."""
        spare = 0 if self._widest is None else self.width() - scaled(self._widest)
        return max(spare // 2, _SIDE)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """The column grows to its widest only."""
        super().resizeEvent(event)
        self.column.setContentsMargins(self.side, 4, self.side, _SIDE)
