"""The library's cache of one sequence: keys, values and the states of delta layers."""

from __future__ import annotations

import ctypes as c
import weakref
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from engine.backend.ledger import Account, Purpose
from engine.backend.native.library import NativeKv, SegmentStruct, library, pointer, refusal
from engine.backend.native.memory import reserve
from engine.backend.native.pool import ThreadPool
from engine.backend.native.workspace import ROWS
from engine.backend.segment import SegmentCache, own_cache

MOST_SNAPSHOTS = 8
"""Snapshots of a sequence: of the beginnings of its last turns, mostly."""


class NativeCache:
    """Keys, values and states of one sequence, owned by the library; `kv` is the type of the first.

    A state is that of the first committed tokens, and never of staged ones; see
    engine/native/delta.c. So it can stay where it is while drafts are rejected, and to go back
    further takes a snapshot.

    Args:
        segment: its shape, and the weights that take committed tokens into a state.
        slots: tokens there is room for.
        pool: the threads that do so.
        account: where all of it is entered.

    Attributes:
        snapshots: the states at some numbers of tokens.
    """

    def __init__(
        self, segment: SegmentStruct, slots: int, pool: ThreadPool, account: Account
    ) -> None:
        self._segment, self._pool, self._account = segment, pool, account
        self._snapshot_bytes: int = library().dt_snapshot_bytes(segment)
        self.snapshots: dict[int, NDArray[np.uint8]] = {}
        self.kv = NativeKv(segment.kv_type)
        self._nbytes: int = library().dt_cache_bytes(segment, slots)
        self.handle = 0
        here = weakref.ref(self)
        entry = account.take(Purpose.KV, self._nbytes, lambda: _touched(here()))
        entry.lasts_as_long_as(self)
        self.handle = library().dt_cache_new(segment, slots)
        if not self.handle:
            entry.release()
            raise MemoryError("no memory for keys and values")
        weakref.finalize(self, library().dt_cache_free, self.handle).atexit = False

    @property
    def nbytes(self) -> int:
        """Bytes reserved, and of snapshots; pages are touched as the sequence grows."""
        return self._nbytes + self.snapshot_bytes

    @property
    def snapshot_bytes(self) -> int:
        """Bytes of `nbytes` that snapshots take."""
        return len(self.snapshots) * self._snapshot_bytes

    @property
    def most_staged(self) -> int | None:
        """Nodes that may be staged at a time: as many as are kept behind a state."""
        return ROWS if self._snapshot_bytes else None

    def reusable(self, slots: int) -> int:
        """Return how many of the first `slots` slots it can go back to."""
        if not self._snapshot_bytes or library().dt_cache_past(self.handle) <= slots:
            return slots
        return max((kept for kept in self.snapshots if kept <= slots), default=0)

    def crop(self, slots: int) -> None:
        """Go back to the first `slots` slots.

        Raises:
            ValueError: the states cannot go back there.
        """
        if not self._snapshot_bytes:
            return
        if library().dt_cache_past(self.handle) > slots:
            if slots and slots not in self.snapshots:
                raise ValueError("a state cannot go back without a snapshot")
            library().dt_restore(self.handle, slots, pointer(self.snapshots.get(slots)))
        self.snapshots = {kept: own for kept, own in self.snapshots.items() if kept <= slots}

    def snapshot(self, slots: int, budget: int) -> None:
        """Keep the states as they are after `slots` tokens, all that are committed.

        Where there would be more of them than fit, the one goes that is nearest to another.

        Args:
            slots: the committed tokens.
            budget: most bytes of all snapshots; one is kept in any case.

        Raises:
            OutOfMemory: there is no memory for it.
        """
        if not self._snapshot_bytes or not slots or slots in self.snapshots:
            return
        most = min(max(budget // self._snapshot_bytes, 1), MOST_SNAPSHOTS)
        while len(self.snapshots) >= most:
            places = sorted(self.snapshots)
            gaps = {place: place - before for before, place in pairwise([0, *places])}
            del self.snapshots[min(gaps, key=lambda place: gaps[place])]
        kept: NDArray[np.uint8] = reserve(
            self._account, (self._snapshot_bytes,), purpose=Purpose.KV
        )
        arguments = self._pool.handle, self._segment, self.handle, slots, pointer(kept)
        if result := library().dt_snapshot(*arguments):
            raise refusal(result)
        self.snapshots[slots] = kept

    def copy_prefix(self, other: SegmentCache, slots: int) -> None:
        """Take over the first `slots` slots of another cache, a number it can go back to.

        Raises:
            TypeError: its keys and values are of another type.
            ValueError: its states cannot go back there.
        """
        source = own_cache(other, NativeCache)
        if source.kv != self.kv:
            raise TypeError("the caches hold keys and values of different types")
        library().dt_cache_copy(self.handle, source.handle, slots)
        self.snapshots = dict(source.snapshots)
        self.crop(slots)

    def move(self, sources: Sequence[int], target: int) -> None:
        """Copy the slots `sources` to target, target + 1, ..."""
        if self._nbytes:
            slots = (c.c_int32 * len(sources))(*sources)
            library().dt_cache_move(self.handle, slots, len(slots), target)


def _touched(cache: NativeCache | None) -> int:
    return int(library().dt_cache_touched(cache.handle)) if cache and cache.handle else 0
