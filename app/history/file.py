"""The open file that all parts of the store share: its connection and its transactions."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from app.history.database import transaction, translated
from app.history.place import Gone, identity
from app.history.upkeep import Upkeep
from engine.errors import UserFixable
from engine.language import tr


class HistoryFile:
    """One connection to a history, used from one thread."""

    read_only = False
    """True if this is only to look at: whatever changes something is refused."""

    def __init__(self, path: Path, connection: sqlite3.Connection, upkeep: Upkeep) -> None:
        self.path = path
        self.connection = connection
        self.upkeep = upkeep
        self._new_words = False
        self._opened = identity(path)

    def require_place(self) -> None:
        """Make sure that the open file is the one at its path.

        Raises:
            Gone: it was deleted, moved or replaced, or its drive is not there. SQLite would go on
                writing into a file that nobody finds again.
        """
        if identity(self.path) != self._opened:
            raise Gone(self.path)

    @property
    def same_drive(self) -> bool:
        """True if the folder is there, on the drive that the file was on when it was opened."""
        folder = identity(self.path.parent)
        return folder is not None and self._opened is not None and folder[0] == self._opened[0]

    def connect_anew(self, connection: sqlite3.Connection, upkeep: Upkeep) -> None:
        """Go on with the file that is at the path now."""
        self.connection, self.upkeep, self._opened = connection, upkeep, identity(self.path)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction.

        Raises:
            UserFixable: the history is only to look at, is gone, or cannot be written to.
        """
        if self.read_only:
            raise UserFixable(
                tr("Your conversations are read-only at the moment."),
                tr("The message shown at the start says how to fix it."),
            )
        self.require_place()
        with self.upkeep.turn, translated(self.path), transaction(self.connection):
            yield
        if self._new_words:
            self._new_words = False
            self.upkeep.wake()

    def rows(
        self, statement: str, arguments: Sequence[object] | Mapping[str, object] = ()
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a query; a flipped bit in a text must not make the rest unreadable."""
        try:
            return self.connection.execute(statement, arguments).fetchall()
        except sqlite3.OperationalError as error:
            if "Could not decode" not in str(error):
                raise
            self.connection.text_factory = lambda raw: raw.decode("utf-8", "replace")  # slower
        return self.connection.execute(statement, arguments).fetchall()

    def change(self, statement: str, arguments: tuple[object, ...]) -> None:
        """Change exactly one row."""
        if self.connection.execute(statement, arguments).rowcount != 1:
            raise LookupError(f"no such row for {arguments}")

    def insert(self, statement: str, arguments: tuple[object, ...]) -> int:
        """Add exactly one row; its id."""
        cursor = self.connection.execute(statement, arguments)
        if cursor.rowcount != 1 or cursor.lastrowid is None:
            raise LookupError(f"nothing to add a row to for {arguments}")
        return cursor.lastrowid

    def to_index(self, message_id: int) -> None:
        """Have the words of a message taken into the search index after this transaction."""
        self.connection.execute("INSERT OR REPLACE INTO to_index VALUES (?, 0)", (message_id,))
        self._new_words = True
