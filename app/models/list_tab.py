"""A tab of the page: a list on one side, what is chosen in it on the other."""

from __future__ import annotations

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import (
    QLabel,
    QProgressBar,
    QPushButton,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.models.detail.frame import DetailFrame, say
from app.models.list.view import RowsView
from app.widgets.labels import plain_label


class ListTab(QObject):
    """The list, or a sentence where there is none; the detail, or nothing.

    Args:
        view: the list.
        detail: the view of the chosen entry.
    """

    action_asked = Signal()
    """The button below the sentence."""

    def __init__(self, view: RowsView, detail: DetailFrame, parent: QWidget) -> None:
        super().__init__(parent)
        self.view, self.detail = view, detail
        self.words = plain_label("", parent, "muted")
        self.words.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self.bar = QProgressBar(parent)
        self.bar.setTextVisible(False)
        self.bar.setFixedSize(160, 4)
        self.action = QPushButton(parent)
        self.action.setAutoDefault(False)
        self.action.clicked.connect(self.action_asked)
        self.side = QStackedWidget(parent)
        self.side.addWidget(view)
        self._empty = QWidget(parent)
        self.side.addWidget(self._empty)
        column = QVBoxLayout(self._empty)
        column.setContentsMargins(20, 24, 20, 24)
        column.setSpacing(12)
        column.addStretch(2)
        column.addWidget(self.words)
        column.addWidget(self.bar, 0, Qt.AlignmentFlag.AlignHCenter)
        column.addWidget(self.action, 0, Qt.AlignmentFlag.AlignHCenter)
        column.addStretch(3)
        self.detail_side = QStackedWidget(parent)
        self.detail_side.addWidget(detail)
        self.detail_side.addWidget(QLabel(parent))
        self.show_detail(shown=False)
        self.say("")

    def say(self, words: str, action: str = "", *, busy: bool = False) -> None:
        """Show a sentence in the place of the list; empty: the list."""
        say(self.words, words)
        self.action.setText(action)
        self.action.setVisible(bool(action))
        self.bar.setRange(0, 0 if busy else 1)
        self.bar.setVisible(busy)
        self.side.setCurrentWidget(self._empty if words else self.view)

    def show_detail(self, *, shown: bool) -> None:
        """The detail, or nothing."""
        self.detail_side.setCurrentIndex(0 if shown else 1)

    def take_keyboard(self) -> None:
        """Move the focus to the list, or to what there is instead."""
        target = self.view if self.side.currentWidget() is self.view else self.action
        target.setFocus(Qt.FocusReason.OtherFocusReason)

    def opened(self) -> None:
        """The tab is on show now."""

    def filter(self, words: str) -> None:
        """Narrow the list down."""


def says(words: str, *texts: str) -> bool:
    """Return whether each of the words stands in one of the texts."""
    said = " ".join(texts).casefold()
    return all(word in said for word in words.casefold().split())
