"""What a segment's forwards work in, one at a time: memory that stays from one to the next."""

from __future__ import annotations

from engine.backend.ledger import Account, Reach
from engine.backend.native.library import SegmentStruct, library, pointer
from engine.backend.native.memory import reserve
from engine.backend.native.sizes import ROWS


class ForwardScratch:
    """Room for a segment's forwards, which never run at the same time; touched as it is used."""

    def __init__(self, segment: SegmentStruct, account: Account) -> None:
        self._reach = Reach(lambda rows: int(library().dt_scratch_bytes(segment, rows)))
        most = library().dt_scratch_bytes(segment, ROWS)
        self._memory = reserve(account, (most,), touched=self._reach)
        segment.scratch, segment.scratch_bytes = pointer(self._memory), most

    def use(self, rows: int) -> None:
        """A forward over so many rows is next."""
        self._reach.extend(rows)
