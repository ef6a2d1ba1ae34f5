"""Tables of rotations for the positions of a segment's sequences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.backend.ledger import Account
from engine.backend.native.library import Rope, pointer
from engine.backend.native.memory import reserve
from engine.model.config import RopeConfig
from engine.model.rope import rotations
from engine.model.weights.readable import Floats

_PIECE = 4096
"""Positions computed at once: a whole table has as large intermediate results."""


class RopeTables:
    """One table for each way to rotate, at an address of its own that stays.

    Args:
        account: where they are entered.

    Attributes:
        struct: as the library sees them.
    """

    def __init__(self, ropes: Sequence[RopeConfig], account: Account) -> None:
        self._ropes, self._account = ropes, account
        self._positions = 0
        self._tables: list[Floats] = []
        self.struct = (Rope * len(ropes))(*(Rope(dim=rope.dim) for rope in ropes))

    def reach(self, positions: int) -> None:
        """Make them long enough for so many positions."""
        if positions <= self._positions:
            return
        tables = [self._table(rope, positions) for rope in self._ropes]
        for native, (cosine, sine) in zip(self.struct, tables, strict=True):
            native.cosine, native.sine = pointer(cosine), pointer(sine)
        self._tables, self._positions = tables, positions

    def _table(self, rope: RopeConfig, positions: int) -> Floats:
        table: Floats = reserve(self._account, (2, positions, rope.dim // 2), np.float32)
        for first in range(0, positions, _PIECE):
            last = min(first + _PIECE, positions)
            table[:, first:last] = rotations(rope, last, first)
        return table
