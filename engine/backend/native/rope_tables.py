"""Tables of rotations for the positions of a segment's sequences."""

from __future__ import annotations

from collections.abc import Sequence

from engine.backend.native.library import Rope, pointer
from engine.backend.segment import Floats
from engine.model.config import RopeConfig
from engine.model.rope import rotations


class RopeTables:
    """One table for each way to rotate, at an address of its own that stays.

    Attributes:
        struct: as the library sees them.
    """

    def __init__(self, ropes: Sequence[RopeConfig]) -> None:
        self._ropes = ropes
        self._positions = 0
        self._tables: list[tuple[Floats, Floats]] = []
        self.struct = (Rope * len(ropes))(*(Rope(dim=rope.dim) for rope in ropes))

    def reach(self, positions: int) -> None:
        """Make them long enough for so many positions."""
        if positions <= self._positions:
            return
        self._positions = positions
        self._tables = [rotations(rope, positions) for rope in self._ropes]
        for native, (cosine, sine) in zip(self.struct, self._tables, strict=True):
            native.cosine, native.sine = pointer(cosine), pointer(sine)
