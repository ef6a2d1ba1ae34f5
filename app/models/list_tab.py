"""A tab of the page: a list on one side, what is chosen in it on the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QLabel, QProgressBar, QStackedWidget, QWidget

from app.models.detail.frame import DetailFrame
from app.models.row_model import E
from app.models.rows_view import RowsView
from app.widgets.boxes import vbox
from app.widgets.labels import plain_label, say
from app.widgets.text_button import text_button


@dataclass(frozen=True, slots=True)
class EmptyTexts:
    """Sentences in the place of a list: nothing is known yet, nothing matches, nothing is there.

    Attributes:
        action: the words of a button where nothing is there; "": no button.
    """

    looking: str
    unmatched: str
    nothing: str
    action: str = ""


class ListTab(QObject, Generic[E]):
    """The list, or a sentence where there is none; the detail, or nothing.

    Args:
        view: the list.
        detail: the view of the chosen entry.
    """

    def __init__(self, view: RowsView[E], detail: DetailFrame, parent: QWidget) -> None:
        super().__init__(parent)
        self.view, self.detail = view, detail
        self.words = plain_label("", parent, "muted")
        self.words.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self.bar = QProgressBar(parent, textVisible=False)
        self.bar.setFixedSize(160, 4)
        self.action = text_button("", parent)
        self.side = QStackedWidget(parent)
        self.side.addWidget(view)
        self._empty = QWidget(parent)
        self.side.addWidget(self._empty)
        vbox(
            2,
            self.words,
            (self.bar, 0, Qt.AlignmentFlag.AlignHCenter),
            (self.action, 0, Qt.AlignmentFlag.AlignHCenter),
            3,
            to=self._empty,
            spacing=12,
            margins=(20, 24, 20, 24),
        )
        self.detail_side = QStackedWidget(parent)
        self.detail_side.addWidget(detail)
        self.detail_side.addWidget(QLabel(parent))
        self._filter = ""
        view.chosen.connect(lambda entry: self.detail_side.setCurrentIndex(int(entry is None)))
        self.detail_side.setCurrentIndex(1)
        self.say("")

    def say(self, words: str, action: str = "", *, busy: bool = False) -> None:
        """Show a sentence in the place of the list; empty: the list."""
        say(self.words, words)
        self.action.setText(action)
        self.action.setVisible(bool(action))
        self.bar.setRange(0, 0 if busy else 1)
        self.bar.setVisible(busy)
        self.side.setCurrentWidget(self._empty if words else self.view)

    def take_keyboard(self) -> None:
        """Move the focus to the list, or to what there is instead."""
        target = self.view if self.side.currentWidget() is self.view else self.action
        target.setFocus(Qt.FocusReason.OtherFocusReason)

    def opened(self) -> None:
        """The tab is on show now."""

    def filter(self, words: str) -> None:
        """Narrow the list down."""
        self._filter = words
        self.show_list()

    def show_list(self) -> None:
        """Show what there is now; a tab that asks for its entries has nothing to show before."""

    def says(self, *texts: str) -> bool:
        """Return whether each word of the filter stands in one of the texts."""
        said = " ".join(texts).casefold()
        return all(word in said for word in self._filter.casefold().split())

    def show_entries(self, entries: Sequence[E], texts: EmptyTexts, *, known: bool) -> None:
        """Show the entries that match the filter, or why there are none.

        Args:
            entries: the entries in their order.
            texts: what is said where there are none.
            known: whether it is known what there is.
        """
        self.view.show_entries(entries, choose_first=True)
        if entries:
            self.say("")
        elif not known:
            self.say(texts.looking, busy=True)
        elif self._filter:
            self.say(texts.unmatched)
        else:
            self.say(texts.nothing, texts.action)
