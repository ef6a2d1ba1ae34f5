"""The feature store: hidden states of committed tokens, which a feature head drafts from.

It lies on the host beside the keys and values of its sequence, is committed and cropped with them,
and so serves a head after a reused prefix as if the tokens had just been processed. Numbers are
fp16; what is beyond its range is cut to it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.backend.ledger import Account, Purpose, Reach
from engine.backend.native.memory import reserve
from engine.model.weights.readable import Floats

_LARGEST = 65504.0
NUMBER = 2
"""Bytes of a stored number."""


class FeatureStore:
    """Features of one sequence; slot i belongs to token i, staged nodes come after.

    Args:
        slots: tokens there is room for; memory is touched as far as it is used.
        width: numbers of a token's features.
        account: where it is entered.
    """

    def __init__(self, slots: int, width: int, account: Account) -> None:
        reach = Reach(lambda used: used * width * NUMBER)
        self._reach = reach
        self._rows: NDArray[np.float16] = reserve(
            account, (slots, width), np.float16, reach, purpose=Purpose.FEATURES
        )

    @property
    def width(self) -> int:
        """Numbers of a token's features."""
        return int(self._rows.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes reserved."""
        return self._rows.nbytes

    def put(self, first: int, rows: Sequence[Floats]) -> None:
        """Features of the slots from `first` on: one fp32 [n, ...] per tap, side by side."""
        count, column = len(rows[0]), 0
        self._reach.extend(first + count)
        for tap in rows:
            place = self._rows[first : first + count, column : column + tap.shape[1]]
            np.clip(tap, -_LARGEST, _LARGEST, out=place, casting="same_kind")
            column += tap.shape[1]

    def rows(self, start: int, stop: int) -> Floats:
        """Features of slots start..stop-1, a copy: fp32 [stop - start, width]."""
        return self._rows[start:stop].astype(np.float32)

    def move(self, sources: Sequence[int], target: int) -> None:
        """Copy the slots `sources` (ascending, each >= its destination) to target, target+1, ..."""
        self._rows[target : target + len(sources)] = self._rows[list(sources)]

    def copy_prefix(self, other: FeatureStore, slots: int) -> None:
        """Take over the first `slots` slots of another store."""
        self._reach.extend(slots)
        self._rows[:slots] = other._rows[:slots]
