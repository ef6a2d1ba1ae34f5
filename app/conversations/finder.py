"""Searching as one types: beside the window, one search at a time, the newest words win."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Protocol

from PySide6.QtCore import QObject, QTimer

from app.engine_link.background import in_background
from app.history import HistorySearch, Hit
from app.notices import report_failure
from app.signals import TypedSignal

_DELAY_MS = 120


class Searcher(Protocol):
    """Finds words in titles and messages; called in other threads, one at a time."""

    def search(self, query: str) -> list[Hit]:
        """Return where the words are."""

    def cancel(self) -> None:
        """End the search that is going on, if any; from any thread."""


class FileSearcher:
    """Searches the file of a history, from whichever thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._going: HistorySearch | None = None

    def search(self, query: str) -> list[Hit]:
        """Return where the words are. Raises `UserFixable`."""
        with HistorySearch(self._path) as going:
            with self._lock:
                self._going = going
            try:
                return going.search(query)
            finally:
                with self._lock:
                    self._going = None

    def cancel(self) -> None:
        """End the search that is going on, if any; from any thread."""
        with self._lock:
            if self._going is not None:
                self._going.cancel()


class Finder(QObject):
    """Asks for the words in the search field once the typing pauses."""

    found = TypedSignal[str, list[Hit]]()
    """The words, and the hits for them."""

    def __init__(self, searcher: Searcher, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._searcher = searcher
        self.query = ""
        self._asked: str | None = None
        """The query that is being searched for right now."""
        self._stale = False
        self._pause = QTimer(self, singleShot=True, interval=_DELAY_MS)
        self._pause.timeout.connect(self._ask)

    @property
    def busy(self) -> bool:
        """True if hits for these words are still to come."""
        return self._pause.isActive() or self._asked is not None

    def look_for(self, query: str) -> None:
        """Search for these words soon; for nothing at all, nothing is asked or told."""
        self.query = query.strip()
        if self._asked is not None:
            self._searcher.cancel()
        if self.query:
            self._pause.start()
        else:
            self._pause.stop()

    def again(self) -> None:
        """Search again, as what can be found has changed."""
        if self.query:
            self._stale = self._asked is not None
            self._pause.start()

    def hurry(self) -> None:
        """Do not wait for the typing to pause."""
        if self._pause.isActive():
            self._pause.stop()
            self._ask()

    def _ask(self) -> None:
        if self._asked is not None:
            return  # the answer on its way asks again
        query = self._asked = self.query
        self._stale = False
        in_background(self, lambda: self._searcher.search(query), self._arrived, self._failed)

    def _arrived(self, hits: list[Hit]) -> None:
        query, self._asked = self._asked, None
        if query == self.query and not self._stale:
            self.found.emit(query, hits)
        elif self.query and not self._pause.isActive():
            self._ask()

    def _failed(self, error: Exception) -> None:
        self._asked = None
        report_failure(error)
