"""Keys and values of one sequence on a device: fp16, whole from the start, never moved."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from engine.backend.accelerator.graphs import Recordings
from engine.backend.accelerator.memory import DeviceAllocator
from engine.backend.ledger import Purpose
from engine.backend.segment import SegmentCache, own_cache
from engine.backend.step import CHUNK

NUMBER = torch.float16
"""Of keys and values."""


class DeviceCache:
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

    def reusable(self, slots: int) -> int:
        """Return `slots`: every slot stands by itself."""
        return slots

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
        if not sources:
            return
        with self._memory.in_words():
            source = torch.tensor(sources, dtype=torch.long).to(self._data.device)
            place = torch.arange(target, target + len(sources), device=self._data.device)
            rows = self._data[:, :, source // CHUNK, :, source % CHUNK]
            self._data[:, :, place // CHUNK, :, place % CHUNK] = rows
