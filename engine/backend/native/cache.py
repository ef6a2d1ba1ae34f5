"""The library's cache of one sequence: keys, values and the states of delta layers."""

from __future__ import annotations

import ctypes as c
import weakref
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.backend.ledger import Account, Purpose
from engine.backend.native.library import NativeKv, SegmentStruct, library, pointer, refusal
from engine.backend.native.memory import reserve
from engine.backend.native.pool import ThreadPool
from engine.backend.native.workspace import ROWS
from engine.backend.segment import SegmentCache, own_cache
from engine.backend.state_cache import StateCache

MOST_SNAPSHOTS = 8
"""Snapshots of a sequence: of the beginnings of its last turns, mostly."""


class NativeCache(StateCache[NDArray[np.uint8]]):
    """Keys, values and states of one sequence, owned by the library; `kv` is the type of the first.

    See engine/native/delta.c for the states.

    Args:
        segment: its shape, and the weights that take committed tokens into a state.
        slots: tokens there is room for.
        pool: the threads that do so.
        account: where all of it is entered.
    """

    def __init__(
        self, segment: SegmentStruct, slots: int, pool: ThreadPool, account: Account
    ) -> None:
        self._segment, self._pool, self._account = segment, pool, account
        self._snapshot_bytes: int = library().dt_snapshot_bytes(segment)
        super().__init__(ROWS if self._snapshot_bytes else 0)
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
    def past(self) -> int:
        """Tokens that the states have taken in."""
        return int(library().dt_cache_past(self.handle))

    def most_snapshots(self, budget: int) -> int:
        """Return how many snapshots there may be."""
        return min(max(budget // self._snapshot_bytes, 1), MOST_SNAPSHOTS)

    def save(self, slots: int) -> NDArray[np.uint8]:
        """Take all committed tokens into the states, and return a copy of those."""
        kept: NDArray[np.uint8] = reserve(
            self._account, (self._snapshot_bytes,), purpose=Purpose.KV
        )
        arguments = self._pool.handle, self._segment, self.handle, slots, pointer(kept)
        if result := library().dt_snapshot(*arguments):
            raise refusal(result)
        return kept

    def restore(self, slots: int, kept: NDArray[np.uint8] | None) -> None:
        """Go back to states that were kept; None: to the beginning."""
        library().dt_restore(self.handle, slots, pointer(kept))

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
