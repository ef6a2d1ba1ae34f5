"""What the controller believes: means that forget, and costs by size from few measurements."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

_FORGET = 0.97
_OUTLIER = 2.0
"""A measurement beyond so many times what was believed is a hiccup, or will come again."""

_REFRESH = 8
"""So many measurements change little of what they say about other sizes."""


class Mean:
    """A mean that forgets; `value` is None before there is anything to know.

    Args:
        prior: what is believed before.
        weight: as much as so many measurements.
        keep: what each measurement leaves of those before.
    """

    __slots__ = ("_keep", "_total", "value", "weight")

    def __init__(self, prior: float = 0.0, weight: float = 0.0, keep: float = _FORGET) -> None:
        self._total, self.weight, self._keep = prior * weight, weight, keep
        self.value = prior if weight else None

    def add(self, value: float) -> None:
        """One more measurement."""
        self._total = self._total * self._keep + value
        self.weight = self.weight * self._keep + 1
        self.value = self._total / self.weight


class Costs:
    """Seconds by size: what was measured, and between that what a known shape makes of it.

    Args:
        sizes: ascending; what lies between two of them costs what the larger does.
        shape: seconds expected of each, or only what they are to each other.
        seconds: which of both.
    """

    __slots__ = ("_factors", "_measured", "_shape", "_since", "_sizes", "_values")

    def __init__(self, sizes: Sequence[int], shape: Sequence[float], *, seconds: bool) -> None:
        self._sizes, self._shape = tuple(sizes), tuple(shape)
        self._measured: list[int] = []
        self._since = 0
        # How much slower than the shape every size is; what was only expected counts for little.
        self._factors = [Mean(1.0, 0.2) if seconds else Mean() for _ in self._sizes]
        self._values = list(shape) if seconds else [0.0] * len(self._sizes)

    def _place(self, size: int) -> int:
        return min(bisect_left(self._sizes, size), len(self._sizes) - 1)

    def of(self, size: int) -> float:
        """Seconds that this size takes; 0 where nothing is known."""
        return self._values[self._place(size)]

    def add(self, size: int, seconds: float) -> None:
        """A measurement."""
        place = self._place(size)
        if believed := self._values[place]:
            seconds = min(seconds, _OUTLIER * believed)
        factor = self._factors[place]
        factor.add(seconds / self._shape[place])
        self._values[place] = self._shape[place] * (factor.value or 1.0)
        self._since += 1
        if place not in self._measured:
            insort(self._measured, place)
        elif self._since < _REFRESH:
            return
        self._since = 0
        for index, shape in enumerate(self._shape):
            self._values[index] = shape * self._factor(index)

    def _factor(self, place: int) -> float:
        """Its own, or in proportion what lies between those of its measured neighbours."""
        after = bisect_left(self._measured, place)
        upper = self._measured[min(after, len(self._measured) - 1)]
        lower = self._measured[max(after - 1, 0)]
        high, low = self._factors[upper].value or 1.0, self._factors[lower].value or 1.0
        if upper <= place or place <= lower:
            return high if upper <= place else low
        sizes = self._sizes
        part = (sizes[place] - sizes[lower]) / (sizes[upper] - sizes[lower])
        return low + (high - low) * part
