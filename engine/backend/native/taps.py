"""Where the outputs of chosen blocks go: memory that stays from one forward to the next."""

from __future__ import annotations

import numpy as np

from engine.backend.ledger import Account
from engine.backend.native.library import StepStruct, pointer
from engine.backend.native.memory import reserve_rows
from engine.model.weights.readable import Floats


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
