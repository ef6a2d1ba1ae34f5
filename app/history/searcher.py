"""Searching beside the window: a worker's own connection, which only reads."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from app.history import index
from app.history.database import read_connection, translated, work_connection
from app.history.records import Hit
from app.history.search import search


class HistorySearch:
    """Searches one history from one thread, next to the store that is open in another.

    Only `cancel` may be called from elsewhere.

    Raises:
        UserFixable: the file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._cancelled = threading.Event()
        with translated(path):
            self._connection = read_connection(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def search(self, query: str, limit: int = 200) -> list[Hit]:
        """Return what `HistoryStore.search` finds; some or nothing of it where it is cancelled."""
        self._cancelled.clear()
        with translated(self.path):
            try:
                return self._search(query, limit)
            except sqlite3.OperationalError as error:
                if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_INTERRUPT:
                    raise
                return []

    def _search(self, query: str, limit: int) -> list[Hit]:
        stop = self._cancelled.is_set
        try:
            return search(self._connection, query, limit, stop)
        except sqlite3.DatabaseError as error:
            if not index.broken(error):
                raise
        with suppress(sqlite3.Error), closing(work_connection(self.path)) as connection:
            index.drop(connection)
        return search(self._connection, query, limit, stop, use_index=False)

    def cancel(self) -> None:
        """End the search that is going on, if any; from any thread."""
        self._cancelled.set()
        self._connection.interrupt()

    def close(self) -> None:
        """Give the file free. Closing twice is harmless."""
        self._connection.close()
