"""Entries as rows: each is put into words when it first comes into sight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from PySide6.QtCore import (
    QAbstractListModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
)

from app.models.badge import RowBadge

Index = QModelIndex | QPersistentModelIndex
E = TypeVar("E")
"""The entries of a list."""
_TOP = QModelIndex()


@dataclass(frozen=True, slots=True)
class ModelRow:
    """Two lines, and perhaps a badge; a heading has one line and cannot be chosen."""

    title: str
    about: str = ""
    mark: RowBadge | None = None
    tip: str = ""
    heading: bool = False

    @property
    def spoken(self) -> str:
        """Return all of it in one line."""
        parts = (self.title, self.about, self.mark.text if self.mark is not None else "")
        return ", ".join(part for part in parts if part)


class RowListModel(QAbstractListModel, Generic[E]):
    """Entries of any kind.

    Args:
        words: makes the row of an entry.
    """

    def __init__(self, words: Callable[[E], ModelRow], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._words = words
        self.entries: Sequence[E] = ()
        self._rows: dict[int, ModelRow] = {}

    def show(self, entries: Sequence[E]) -> None:
        """Show other entries."""
        self.beginResetModel()
        self.entries, self._rows = entries, {}
        self.endResetModel()

    def say_anew(self) -> None:
        """Renew the rows: more is known about the same entries now."""
        self._rows = {}
        if self.entries:
            self.dataChanged.emit(self.index(0, 0), self.index(len(self.entries) - 1, 0))

    def entry(self, index: Index) -> E | None:
        """Return the entry in a row."""
        return self.entries[index.row()] if 0 <= index.row() < len(self.entries) else None

    def row(self, index: Index) -> ModelRow | None:
        """Return the texts of a row."""
        number = index.row()
        if not 0 <= number < len(self.entries):
            return None
        if number not in self._rows:
            self._rows[number] = self._words(self.entries[number])
        return self._rows[number]

    def rowCount(self, parent: Index = _TOP) -> int:  # noqa: N802
        """Return the number of entries."""
        return 0 if parent.isValid() else len(self.entries)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """The words of a row; the rest is drawn by the delegate."""
        row = self.row(index)
        if row is None:
            return None
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return row.title
            case Qt.ItemDataRole.AccessibleTextRole:
                return row.spoken
            case _:
                return None

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Headings are not for choosing."""
        row = self.row(index)
        if row is None or row.heading:
            return Qt.ItemFlag.NoItemFlags
        return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
