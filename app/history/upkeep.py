"""Work that can wait, done beside the window: the search index, and a check of a large file."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from app.history import index
from app.history.database import check, translated, work_connection
from engine.errors import UserFixable

_log = logging.getLogger(__name__)
_LETTERS_AT_ONCE = 50_000
"""The file is locked while so much is indexed: some milliseconds."""
_STOP_WITHIN_S = 5.0


_at_work: dict[Path, Upkeep] = {}


class Upkeep(threading.Thread):
    """Indexes what is waiting whenever it is woken, with pauses in which the window can write.

    `damaged` is called, in this thread, with a `UserFixable` when the file turns out to be damaged.
    Other trouble is left to the next time: nothing here is needed for keeping words.
    """

    def __init__(
        self, path: Path, damaged: Callable[[UserFixable], None], *, checked: bool
    ) -> None:
        super().__init__(name="history upkeep", daemon=True)
        self._path = path
        self._damaged = damaged
        self._checked = checked
        self.turn = threading.Lock()
        """Held while writing. SQLite's own lock would be met with naps of up to 100 ms."""
        self._news = threading.Event()
        self._idle = threading.Event()
        self._ending = threading.Event()

    def wake(self) -> None:
        """Wake the indexing, as there is something to index."""
        self._idle.clear()
        self._news.set()

    def wait_until_idle(self) -> bool:
        """Wait until everything is done; for tests and measurements."""
        return self._idle.wait(100)

    def start(self) -> None:
        """Begin."""
        _at_work[self._path] = self
        super().start()

    def stop(self) -> None:
        """End between two pieces of work."""
        _at_work.pop(self._path, None)
        self._ending.set()
        self._news.set()
        if self.is_alive():
            self.join(_STOP_WITHIN_S)

    @classmethod
    def of(cls, path: Path) -> Upkeep:
        """The upkeep of a history that is open in this process."""
        return _at_work[path]

    def run(self) -> None:
        """Work until stopped."""
        try:
            with translated(self._path), closing(work_connection(self._path)) as connection:
                connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
                while not self._ending.is_set():
                    self._news.clear()
                    self._index(connection)
                    self._look_over(connection)
                    if not self._news.is_set():
                        self._idle.set()
                    self._news.wait()
        except (UserFixable, sqlite3.Error) as error:
            _log.warning("no upkeep of the history: %s", error)
        finally:
            self._idle.set()

    def _index(self, connection: sqlite3.Connection) -> None:
        try:
            with self.turn:
                more = index.create(connection)
            while more and not self._ending.is_set():
                began = time.perf_counter()
                with self.turn:
                    more = index.take_in(connection, _LETTERS_AT_ONCE)
                self._ending.wait(time.perf_counter() - began)
        except sqlite3.DatabaseError as error:
            if index.broken(error):
                index.drop(connection)
            else:  # busy, full: what waits is waiting still
                _log.warning("the search index has to wait: %s", error)

    def _look_over(self, connection: sqlite3.Connection) -> None:
        if self._checked or self._ending.is_set():
            return
        self._checked = True
        try:
            check(connection, self._path)
        except UserFixable as error:
            self._damaged(error)
