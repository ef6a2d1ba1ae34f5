"""Token ids of texts encoded lately: of a growing conversation only what is new is encoded."""

from __future__ import annotations

import threading
from array import array
from collections import OrderedDict

MOST_REMEMBERED = 4_000_000
"""Characters of text whose ids are kept: some ten megabytes in all."""


class RecentIds:
    """What was encoded last, for any number of threads; the key says how besides what."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, bool], array[int]] = OrderedDict()
        self._size = 0
        self._gate = threading.Lock()

    def get(self, key: tuple[str, bool]) -> array[int] | None:
        """The ids of a text as an inner stretch or not, if they are still known."""
        with self._gate:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
            return known

    def put(self, key: tuple[str, bool], ids: array[int]) -> None:
        """Keep the ids of a text, and forget the oldest where there are too many."""
        with self._gate:
            if key not in self._known:
                self._known[key] = ids
                self._size += len(key[0])
            while self._size > MOST_REMEMBERED and len(self._known) > 1:
                self._size -= len(self._known.popitem(last=False)[0][0])
