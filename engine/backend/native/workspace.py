"""Workspace and taps of a segment's forwards: memory that stays from one to the next."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.backend.ledger import Account, Reach
from engine.backend.native.library import Rope, SegmentStruct, StepStruct, library, pointer
from engine.backend.native.memory import reserve, reserve_rows
from engine.backend.native.sizes import ROWS
from engine.model.config import RopeConfig
from engine.model.rope import rotations
from engine.model.weights.readable import Floats


class ForwardScratch:
    """Room for a segment's forwards, which never run at the same time; touched as it is used."""

    def __init__(self, segment: SegmentStruct, account: Account) -> None:
        self._reach = Reach(lambda rows: int(library().dt_scratch_bytes(segment, rows)))
        most = library().dt_scratch_bytes(segment, ROWS)
        self._memory = reserve(account, (most,), touched=self._reach)
        segment.scratch, segment.scratch_bytes = pointer(self._memory), most

    def use(self, rows: int) -> None:
        """Prepare for a forward over so many rows."""
        self._reach.extend(rows)


class TapRows:
    """Taps of one segment's forwards.

    Args:
        blocks: the segment's.
        width: hidden size.
        account: where the memory is entered, when taps are first wanted.
    """

    def __init__(self, blocks: range, width: int, account: Account) -> None:
        self._blocks, self._width, self._account = blocks, width, account
        self._wanted: tuple[int, ...] = ()
        self._here: list[int] = []
        self._memory: Floats | None = None

    def prepare(
        self, step: StepStruct, wanted: tuple[int, ...], rows: int, most: int
    ) -> dict[int, Floats]:
        """Ask a forward for the outputs of those of the blocks that are this segment's.

        Args:
            step: the forward's.
            wanted: block indices.
            rows: of the forward.
            most: rows that there is to be room for.

        Returns:
            block index -> fp32 [rows, width], filled by the forward, valid until the next.
        """
        if wanted != self._wanted:
            self._choose(wanted)
        step.tap_count = count = len(self._here)
        if not count:
            return {}
        memory = self._memory
        if memory is None or len(memory) < count * most:
            self._memory = None  # the old one goes first
            self._used, self._memory = reserve_rows(self._account, count * most, self._width)
            memory = self._memory
        self._used.extend(count * rows)
        step.taps, step.tap_out = pointer(self._local), pointer(memory)
        out = memory[: count * rows].reshape(count, rows, self._width)
        return dict(zip(self._here, out, strict=True))

    def _choose(self, wanted: tuple[int, ...]) -> None:
        self._wanted = wanted
        self._here = [tap for tap in wanted if tap in self._blocks]
        self._local = np.array([tap - self._blocks.start for tap in self._here], dtype=np.int32)


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
        """Extend the tables to so many positions."""
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
