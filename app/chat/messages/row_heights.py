"""The heights of a long column of rows, without any widget: where a row is, and what is at a place.

Heights are whole pixels: estimates until somebody has measured the row, which here is the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class Anchor:
    """A place in the column, `offset` pixels below the top of `row`, whatever happens above it."""

    row: int
    offset: int


class RowHeights:
    """Heights and their sums in a Fenwick tree: questions and changes take O(log n)."""

    def __init__(self, estimates: Iterable[int] = ()) -> None:
        self._heights: list[int] = []
        self._sums: list[int] = [0]
        """Entry i (from 1) is the sum of the last (i & -i) heights up to row i - 1."""
        self.extend(estimates)

    def __len__(self) -> int:
        return len(self._heights)

    def __getitem__(self, row: int) -> int:
        return self._heights[row]

    @property
    def total(self) -> int:
        """The height of the whole column."""
        return self.top(len(self._heights))

    def extend(self, estimates: Iterable[int]) -> None:
        """Add rows at the end."""
        new = list(estimates)
        before = self.total
        first = len(self._heights) + 1
        running = list(accumulate(new, initial=before))
        for place in range(first, first + len(new)):
            start = place - (place & -place)
            below = running[start - first + 1] if start >= first - 1 else self.top(start)
            self._sums.append(running[place - first + 1] - below)
        self._heights.extend(new)

    def truncate(self, count: int) -> None:
        """Keep only the first `count` rows."""
        del self._heights[count:], self._sums[count + 1 :]

    def measure(self, row: int, height: int) -> int:
        """Note the height of `row`; by how much it differs from what was known."""
        change = height - self._heights[row]
        if change:
            self._heights[row] = height
            place = row + 1
            while place < len(self._sums):
                self._sums[place] += change
                place += place & -place
        return change

    def top(self, row: int) -> int:
        """Return where `row` begins; for the number of rows, where the column ends."""
        result = 0
        while row:
            result += self._sums[row]
            row &= row - 1
        return result

    def row_at(self, y: int) -> int:
        """The row at `y`: the first one above the column, the last one below it. There is one."""
        place = 0
        step = 1 << len(self._heights).bit_length()
        left = y
        while step := step >> 1:
            further = place + step
            if further < len(self._sums) and self._sums[further] <= left:
                place = further
                left -= self._sums[further]
        return min(place, len(self._heights) - 1)

    def anchor_at(self, y: int) -> Anchor:
        """The anchor of the place `y`."""
        row = self.row_at(y)
        return Anchor(row, y - self.top(row))

    def place(self, anchor: Anchor) -> int:
        """Return where an anchor is now."""
        return self.top(anchor.row) + anchor.offset
