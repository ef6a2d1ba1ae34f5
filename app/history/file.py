"""The open file that the rooms of the store share: its connection and its transactions."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from app.history.database import transaction, translated
from app.history.upkeep import Upkeep
from engine.errors import UserFixable
from engine.language import tr


class HistoryFile:
    """One connection to a history, used from one thread."""

    read_only = False
    """True if this is only to look at: whatever changes something is refused."""

    def __init__(self, path: Path, connection: sqlite3.Connection, upkeep: Upkeep) -> None:
        self.path = path
        self._connection = connection
        self._upkeep = upkeep
        self._went_back: set[int] = set()
        """Conversations whose branch may have been cut back."""
        self._new_words = False

    @contextmanager
    def _writing(self) -> Iterator[None]:
        if self.read_only:
            raise UserFixable(
                tr("Your conversations can only be read at the moment, nothing can be added."),
                tr("The message about the history, shown at the start, says what can be done."),
            )
        with self._upkeep.turn, translated(self.path), transaction(self._connection):
            yield
        if self._new_words:
            self._new_words = False
            self._upkeep.wake()

    def _rows(self, statement: str, arguments: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query; a flipped bit in a text must not make the rest unreadable."""
        try:
            return self._connection.execute(statement, arguments).fetchall()
        except sqlite3.OperationalError as error:
            if "Could not decode" not in str(error):
                raise
            self._connection.text_factory = lambda raw: raw.decode("utf-8", "replace")  # slower
        return self._connection.execute(statement, arguments).fetchall()

    def _change(self, statement: str, arguments: tuple[object, ...]) -> None:
        """Change exactly one row."""
        if self._connection.execute(statement, arguments).rowcount != 1:
            raise LookupError(f"no such row for {arguments}")

    def _insert(self, statement: str, arguments: tuple[object, ...]) -> int:
        """Add exactly one row; its id."""
        cursor = self._connection.execute(statement, arguments)
        if cursor.rowcount != 1 or cursor.lastrowid is None:
            raise LookupError(f"nothing to add a row to for {arguments}")
        return cursor.lastrowid
