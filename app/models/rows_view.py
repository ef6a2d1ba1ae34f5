"""A list of rows to choose one from, by mouse or by keyboard."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Generic

from PySide6.QtCore import QItemSelectionModel, QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtGui import QFocusEvent, QKeyEvent
from PySide6.QtWidgets import QAbstractItemView, QWidget

from app.models.row_delegate import RowDelegate
from app.models.row_model import E, ModelRow, RowListModel
from app.signals import TypedSignal
from app.widgets.uniform_list import UniformList

Index = QModelIndex | QPersistentModelIndex
_CHOOSE = QItemSelectionModel.SelectionFlag.ClearAndSelect


class RowsView(UniformList, Generic[E]):
    """Entries as rows; the chosen one stays chosen when others come and go.

    Args:
        name: the name for screen readers.
        words: makes the row of an entry.
        key: returns the key by which an entry is known again.
    """

    chosen = TypedSignal[E | None]()
    """Another entry was chosen, or None."""
    opened = TypedSignal[E]()
    """An entry by Return or a double click."""

    def __init__(
        self,
        name: str,
        words: Callable[[E], ModelRow],
        key: Callable[[E], Hashable],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._key = key
        self._last: Hashable = None
        self._awaited: Hashable = None
        self._changing = False
        self.rows = RowListModel(words, self)
        self.setModel(self.rows)
        self.setItemDelegate(RowDelegate(self.rows, self))
        self.setAccessibleName(name)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.doubleClicked.connect(self._enter)

    @property
    def current(self) -> E | None:
        """The chosen entry."""
        return self.rows.entry(self.currentIndex())

    def show_entries(self, entries: Sequence[E], *, choose_first: bool = False) -> None:
        """Show other entries; the one that was chosen is so again, if it is among them.

        Args:
            entries: the entries in their order.
            choose_first: choose the first one where none would be chosen.
        """
        before = self._last
        self._changing = True
        self.rows.show(entries)
        index = self._index(self._awaited)
        if index.isValid():
            self._awaited = None
        else:
            index = self._index(before)
        if not index.isValid() and choose_first:
            index = self._first()
        self._changing = False
        if index.isValid():
            self.setCurrentIndex(index)
        if self.current is None:
            self._last = None
            self.chosen.emit(None)

    def choose(self, key: Hashable) -> None:
        """Choose the entry with this key, if there is one."""
        index = self._index(key)
        if index.isValid():
            self.setCurrentIndex(index)
            self.scrollTo(index)

    def choose_once_here(self, key: Hashable) -> None:
        """Choose the entry with this key as soon as it is among them."""
        self._awaited = key

    def currentChanged(self, now: Index, before: Index) -> None:  # noqa: N802
        """Tell of the entry, once."""
        super().currentChanged(now, before)
        entry = self.rows.entry(now)
        if entry is not None and not self._changing:
            self._last = self._key(entry)
            self.chosen.emit(entry)

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        """Choose the current entry when the focus comes by keyboard, so that it looks chosen."""
        super().focusInEvent(event)
        if self.currentIndex().isValid():
            self.selectionModel().select(self.currentIndex(), _CHOOSE)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Return does with an entry what a double click does."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.current is not None:
            self._enter(self.currentIndex())
        else:
            super().keyPressEvent(event)

    def _enter(self, index: Index) -> None:
        entry, row = self.rows.entry(index), self.rows.row(index)
        if entry is not None and row is not None and not row.heading:
            self.opened.emit(entry)

    def _index(self, key: Hashable) -> QModelIndex:
        if key is not None:
            for number, entry in enumerate(self.rows.entries):
                if self._key(entry) == key:
                    return self.rows.index(number, 0)
        return QModelIndex()

    def _first(self) -> QModelIndex:
        for number in range(len(self.rows.entries)):
            index = self.rows.index(number, 0)
            if self.rows.flags(index) & Qt.ItemFlag.ItemIsEnabled:
                return index
        return QModelIndex()
