"""Measured values over time: remembering, thinning out for the screen, and scales. No Qt.

numpy is imported where something has been measured: the window comes up without it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_STEPS = (1.0, 2.0, 4.0, 6.0, 10.0)
"""Mantissas of a scale's end; each gives a middle that reads well."""


class RingBuffer:
    """Keeps the newest `capacity` rows of `columns` numbers.

    Every row is written twice into an array of double length, so that any run of rows is one
    slice: nothing is copied or wrapped around when reading.
    """

    def __init__(self, capacity: int, columns: int = 1) -> None:
        if capacity < 1 or columns < 1:
            raise ValueError("a ring buffer needs room for at least one number")
        self._capacity = capacity
        self._columns = columns
        self._kept: Floats | None = None
        self._written = 0

    @property
    def _rows(self) -> Floats:
        """Made with the first row: only then is numpy needed."""
        if self._kept is None:
            import numpy as np

            self._kept = np.zeros((2 * self._capacity, self._columns))
        return self._kept

    def __len__(self) -> int:
        return min(self._written, self._capacity)

    def append(self, *row: float) -> None:
        """Add a row; the oldest one falls out when the buffer is full."""
        slot = self._written % self._capacity
        rows = self._rows
        rows[slot] = rows[slot + self._capacity] = row
        self._written += 1

    def clear(self) -> None:
        """Forget everything."""
        self._written = 0

    def view(self) -> Floats:
        """All rows, oldest first: float64 [len(self), columns], read-only, valid until `append`."""
        start = max(self._written - self._capacity, 0) % self._capacity
        rows = self._rows[start : start + len(self)]
        rows.flags.writeable = False
        return rows


class Series:
    """The last samples of one quantity; NaN marks a break in the line.

    Args:
        capacity: how many samples to remember.
        max_gap: samples further apart than this many seconds are not joined by a line.
        spacing: seconds; only the first of samples closer together is kept.
    """

    def __init__(
        self, capacity: int = 8192, max_gap: float = math.inf, spacing: float = 0.0
    ) -> None:
        self._samples = RingBuffer(capacity, columns=2)
        self._max_gap = max_gap
        self._spacing = spacing
        self._last_at = -math.inf
        self.last: float | None = None
        """The newest sample, None when there is none or it was not measurable."""

    def append(self, at: float, value: float | None) -> None:
        """Add a sample at `at` seconds; None where nothing could be measured.

        A sample older than the newest one is dropped: time on a graph runs one way.
        """
        if at < self._last_at or (self.last is not None and at < self._last_at + self._spacing):
            return
        if self.last is not None and (value is None or at - self._last_at > self._max_gap):
            self._samples.append(self._last_at, math.nan)
        if value is not None:
            self._samples.append(at, value)
        self.last = value
        self._last_at = at

    def interrupt(self) -> None:
        """Do not join the next sample to the last one."""
        if self.last is not None:
            self._samples.append(self._last_at, math.nan)
            self.last = None

    def clear(self) -> None:
        """Forget everything."""
        self._samples.clear()
        self._last_at, self.last = -math.inf, None

    def since(self, start: float) -> tuple[Floats, Floats]:
        """Times and values from `start` on, with one sample before it where there is one."""
        import numpy as np

        rows = self._samples.view()
        times, values = rows[:, 0], rows[:, 1]
        first = max(int(np.searchsorted(times, start)) - 1, 0)
        return times[first:], values[first:]

    def between(self, start: float, end: float) -> tuple[Floats, Floats]:
        """Return the samples as `since` does, up to `end` and one more, if there is one."""
        import numpy as np

        times, values = self.since(start)
        last = int(np.searchsorted(times, end, side="right")) + 1
        return times[:last], values[:last]

    def nearest(self, at: float) -> tuple[float, float] | None:
        """Time and value of the measurement closest to a moment."""
        import numpy as np

        rows = self._samples.view()
        rows = rows[~np.isnan(rows[:, 1])]
        if not len(rows):
            return None
        time, value = rows[int(np.abs(rows[:, 0] - at).argmin())]
        return float(time), float(value)

    def neighbour(self, at: float, step: int) -> float | None:
        """Return when the next measurement before (-1) or after (1) a moment was taken."""
        import numpy as np

        times, values = self.since(-math.inf)
        times = times[~np.isnan(values)]
        if step < 0:
            index = int(np.searchsorted(times, at, side="left")) - 1
        else:
            index = int(np.searchsorted(times, at, side="right"))
        return float(times[index]) if 0 <= index < len(times) else None

    def mean(self, start: float, end: float) -> float | None:
        """Return the mean of the values between two moments; None without one."""
        import numpy as np

        rows = self._samples.view()
        inside = (rows[:, 0] >= start) & (rows[:, 0] <= end) & ~np.isnan(rows[:, 1])
        return float(rows[inside, 1].mean()) if inside.any() else None

    def peak(self, start: float, end: float = math.inf) -> float:
        """The largest value from `start` on; 0 without one."""
        import numpy as np

        values = self.between(start, end)[1]
        finite = values[~np.isnan(values)]
        return float(finite.max()) if len(finite) else 0.0


def unbroken(times: Floats, values: Floats) -> list[tuple[Floats, Floats]]:
    """The runs between breaks, in order."""
    import numpy as np

    breaks = np.flatnonzero(np.isnan(values))
    edges = [-1, *breaks.tolist(), len(values)]
    return [(times[a + 1 : b], values[a + 1 : b]) for a, b in pairwise(edges) if b - a > 1]


def decimate(x: Floats, y: Floats, column: float = 1.0) -> tuple[Floats, Floats]:
    """Two points per column of pixels, its smallest and its largest value, where that is fewer.

    `x` holds pixels, ascending. What a full line would have covered stays covered, so a single
    spike among thousands of samples is still seen.
    """
    import numpy as np

    columns = np.floor(x / column)
    starts = np.flatnonzero(np.diff(columns, prepend=-np.inf))
    if 2 * len(starts) >= len(x):
        return x, y
    extremes = np.empty((len(starts), 2))
    np.minimum.reduceat(y, starts, out=extremes[:, 0])
    np.maximum.reduceat(y, starts, out=extremes[:, 1])
    return np.repeat(x[starts], 2), extremes.ravel()


def nice_ceiling(value: float) -> float:
    """The smallest 1, 2, 4, 6 or 10 times a power of ten that is at least `value`."""
    if not value > 0 or math.isinf(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in _STEPS if value <= step * power * (1 + 1e-9))


@dataclass(slots=True)
class Scale:
    """The end of a vertical axis from 0: grows at once, shrinks only when much too large."""

    ceiling: float = 1.0
    fixed: bool = False
    smallest: float = 1.0

    def fit(self, peak: float) -> float:
        """Adapt to the largest value in sight and return the end of the axis."""
        fits = 0.4 * self.ceiling <= peak <= self.ceiling
        if peak > 0 and not fits and not self.fixed:
            self.ceiling = max(nice_ceiling(peak * 1.05), self.smallest)
        return self.ceiling
