"""Amounts that grow over time, and how much of one falls into each column of a picture. No Qt."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.performance.series import Floats


def _doubles() -> array[float]:
    return array("d")


@dataclass(slots=True)
class Accumulated:
    """A sum that grows evenly while something goes on, and rests in between."""

    _times: array[float] = field(default_factory=_doubles)
    """Begins and ends, in turns."""
    _sums: array[float] = field(default_factory=_doubles)

    def add(self, start: float, end: float, amount: float) -> None:
        """Take in what came between two moments, none of them before the last one."""
        start = max(start, self._times[-1]) if self._times else start
        before = self._sums[-1] if self._sums else 0.0
        self._times.extend((start, max(end, start)))
        self._sums.extend((before, before + amount))

    def forget(self, before: float) -> None:
        """Drop what ended before a moment."""
        first = bisect_left(self._times, before) // 2 * 2
        del self._times[:first], self._sums[:first]

    def between(self, edges: Floats) -> Floats:
        """Return what came between each two neighbours of `edges`."""
        import numpy as np  # a start does without

        if not self._times:
            return np.zeros(len(edges) - 1)
        return np.diff(np.interp(edges, np.frombuffer(self._times), np.frombuffer(self._sums)))
