"""The numbers behind a picture, as rows of texts. No Qt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar, overload

Row = tuple[str, ...]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Table:
    """A title, the columns' names, and the rows, each as long as the names."""

    title: str
    columns: Row
    rows: Sequence[Row]


class _Formatted(Sequence[Row]):
    """Rows that are put into words when they are looked at: there may be very many."""

    def __init__(self, items: Sequence[T], words: Callable[[T], Row]) -> None:
        self._count = len(items)
        self._row: Callable[[int], Row] = lambda index: words(items[index])

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        if isinstance(index, slice):
            return [self._row(each) for each in range(*index.indices(self._count))]
        if not -self._count <= index < self._count:
            raise IndexError(index)
        return self._row(index % self._count)


def formatted(items: Sequence[T], words: Callable[[T], Row]) -> Sequence[Row]:
    """Rows that are put into words when they are looked at."""
    return _Formatted(items, words)


def as_text(table: Table) -> str:
    """Return the table with tabs between the columns, as spreadsheets take it."""
    return "\n".join("\t".join(row) for row in (table.columns, *table.rows)) + "\n"
