"""A fixed-size memory of the newest rows, readable as one contiguous array at any moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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
        self._kept: NDArray[np.float64] | None = None
        self._written = 0

    @property
    def _rows(self) -> NDArray[np.float64]:
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

    def view(self) -> NDArray[np.float64]:
        """All rows, oldest first: float64 [len(self), columns], read-only, valid until `append`."""
        start = max(self._written - self._capacity, 0) % self._capacity
        rows = self._rows[start : start + len(self)]
        rows.flags.writeable = False
        return rows
