"""A segment's memory on a device, entered in the ledger first; the cache of a sequence."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager

import torch

from engine.backend.accelerator.driver import Driver, in_words
from engine.backend.ledger import Account, Allocation, Purpose
from engine.backend.segment import SegmentCache, own_cache
from engine.backend.step import CHUNK


class DeviceAllocator:
    """Takes tensors from a device; their entries go with this object, which the holder keeps."""

    def __init__(self, driver: Driver, account: Account) -> None:
        self._driver, self._account = driver, account

    @property
    def device(self) -> torch.device:
        """The device that tensors are taken from."""
        return self._driver.device

    def in_words(self, needed: int | None = None) -> AbstractContextManager[None]:
        """Say what goes wrong on the device."""
        return in_words(self._driver, self._account.ledger, needed)

    def enter(self, purpose: Purpose, nbytes: int) -> Allocation:
        """Enter what torch will take on its own.

        Raises:
            OutOfMemory: beyond the budget; torch was not asked.
        """
        return self._account.take(purpose, nbytes).lasts_as_long_as(self)

    def zeros(self, purpose: Purpose, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """A tensor of zeros.

        Raises:
            OutOfMemory: beyond the budget, or the device is full; nothing is entered.
        """
        nbytes = torch.Size(shape).numel() * dtype.itemsize
        entry = self.enter(purpose, nbytes)
        try:
            with self.in_words(nbytes):
                return torch.zeros(tuple(shape), dtype=dtype, device=self.device)
        except BaseException:
            entry.release()
            raise

    def brought(self, numbers: Sequence[int]) -> torch.Tensor:
        """A few whole numbers on the device, int64, in memory that torch takes and gives back.

        Page-locked memory is not used anew before the device has read it: torch sees to that.
        """
        apart = self._driver.computes_apart
        host = torch.tensor(numbers, dtype=torch.long, pin_memory=apart)
        return host.to(self.device, non_blocking=apart)

    def keep(self, purpose: Purpose, tensor: torch.Tensor) -> torch.Tensor:
        """A copy on the device."""
        kept = self.zeros(purpose, tensor.shape, tensor.dtype)
        kept.copy_(tensor)
        return kept


class Workspace:
    """Entered in the ledger, where it stays as long as this object; torch's allocator hands it out.

    One of a device's is shared by all segments, which run one after the other.
    """

    def __init__(self, account: Account) -> None:
        self._account = account
        self._reserved = 0

    def reserve(self, nbytes: int) -> None:
        """Have room for so much at once.

        Raises:
            OutOfMemory: beyond the budget.
        """
        more = nbytes - self._reserved
        if more > 0:
            self._account.take(Purpose.WORKSPACE, more).lasts_as_long_as(self)
            self._reserved = nbytes


NUMBER = torch.float16
"""Type of the numbers in the KV cache."""


MOST_RECORDINGS = 48
"""Recordings kept of one sequence's cache; the one that was replayed longest ago goes."""

Work = Callable[[], None]
Key = Hashable


class Recordings:
    """Recordings of the forwards on one cache: they hold its addresses and are dropped with it."""

    def __init__(self) -> None:
        self._known: OrderedDict[Key, Work | None] = OrderedDict()

    def __len__(self) -> int:
        return sum(replay is not None for replay in self._known.values())

    def knows(self, key: Key) -> bool:
        """Tell whether such a forward has run before."""
        return key in self._known

    def find(self, key: Key) -> Work | None:
        """The recording, if there is one."""
        replay = self._known.get(key)
        if replay is not None:
            self._known.move_to_end(key)
        return replay

    def keep(self, key: Key, replay: Work | None) -> None:
        """Remember a forward that has run, with its recording; None: it was not recorded."""
        self._known[key] = replay
        self._known.move_to_end(key)
        while len(self._known) > MOST_RECORDINGS:
            self._known.popitem(last=False)


class DeviceCache(SegmentCache):
    """[blocks, keys and values, chunks, kv heads, CHUNK, head dim].

    Slot s lies in chunk s // CHUNK at offset s % CHUNK. A last chunk takes what padding rows write.
    All of it is finite from the start, so that a masked key contributes an exact zero.

    Attributes:
        chunks: with slots of the sequence.
        recordings: of forwards that work on it.
    """

    def __init__(
        self, memory: DeviceAllocator, blocks: int, slots: int, kv_heads: int, head_dim: int
    ) -> None:
        self._memory = memory  # whose entries in the ledger last as long as this
        self.chunks = -(-slots // CHUNK)
        shape = (blocks, 2, self.chunks + 1, kv_heads, CHUNK, head_dim)
        self._data = memory.zeros(Purpose.KV, shape, NUMBER)
        self.recordings = Recordings()

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._data.nbytes

    def keys(self, block: int) -> torch.Tensor:
        """[chunks + 1, kv heads, CHUNK, head dim] of one block."""
        return self._data[block, 0]

    def values(self, block: int) -> torch.Tensor:
        """[chunks + 1, kv heads, CHUNK, head dim] of one block."""
        return self._data[block, 1]

    def first(self, chunks: int) -> torch.Tensor:
        """The first chunks of all blocks."""
        return self._data[:, :, :chunks]

    def copy_prefix(self, other: SegmentCache, slots: int) -> None:
        """Take over the first `slots` slots of another cache."""
        chunks, source = -(-slots // CHUNK), own_cache(other, DeviceCache)
        with self._memory.in_words():
            self.first(chunks).copy_(source.first(chunks))

    def move(self, sources: Sequence[int], target: int) -> None:
        """Copy the slots `sources` to target, target + 1, ... in every block."""
        with self._memory.in_words():
            source = self._memory.brought(sources)
            place = torch.arange(target, target + len(sources), device=self._data.device)
            rows = self._data[:, :, source // CHUNK, :, source % CHUNK]
            self._data[:, :, place // CHUNK, :, place % CHUNK] = rows
