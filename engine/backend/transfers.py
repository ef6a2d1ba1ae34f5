"""When something was copied between a device and the host while somebody waited for it."""

from __future__ import annotations

from collections import deque
from itertools import takewhile

from engine.events import Interval

_MOST = 1024
"""Copies kept where nobody asks for them, as while a prompt is read; a round has a few."""


class Transfers:
    """The copies of one device, in order of their ends. Any thread may note one."""

    def __init__(self) -> None:
        self._copies: deque[Interval] = deque(maxlen=_MOST)

    def note(self, start: float, end: float) -> None:
        """Something was copied from `start` to `end`."""
        self._copies.append(Interval(start, end))

    def take(self, until: float) -> list[Interval]:
        """Those that have ended by then and were not taken before."""
        taken = list(takewhile(lambda copy: copy.end <= until, tuple(self._copies)))
        for _ in taken:
            self._copies.popleft()
        return taken
