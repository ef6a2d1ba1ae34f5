"""Keys and values of one sequence for a run of blocks, in chunks by slot."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from engine.backend.ledger import Account, Purpose, Reach
from engine.backend.segment import SegmentCache, own_cache
from engine.backend.step import CHUNK, Ints


class TorchCache:
    """fp32 keys and values, [blocks, 2, chunks, kv heads, CHUNK, head dim].

    Slot s lies in chunk s // CHUNK at offset s % CHUNK. The memory comes zeroed from the system
    and is touched only as the sequence grows; stale slots hold finite numbers, so a masked key
    contributes an exact zero.

    Args:
        account: where they are entered.
    """

    def __init__(
        self, blocks: int, slots: int, kv_heads: int, head_dim: int, account: Account
    ) -> None:
        chunks = -(-slots // CHUNK)
        shape = (blocks, 2, chunks, kv_heads, CHUNK, head_dim)
        per_chunk = 2 * blocks * kv_heads * CHUNK * head_dim * 4
        self._written = Reach(lambda slots: -(-slots // CHUNK) * per_chunk)
        entry = account.take(Purpose.KV, chunks * per_chunk, self._written)
        entry.lasts_as_long_as(self)
        self._data = torch.from_numpy(np.zeros(shape, dtype=np.float32))

    @property
    def nbytes(self) -> int:
        """Bytes reserved."""
        return self._data.nbytes

    def first(self, chunks: int) -> torch.Tensor:
        """The first chunks of all blocks."""
        return self._data[:, :, :chunks]

    def keys(self, block: int) -> torch.Tensor:
        """[chunks, kv heads, CHUNK, head dim] of one block."""
        return self._data[block, 0]

    def values(self, block: int) -> torch.Tensor:
        """[chunks, kv heads, CHUNK, head dim] of one block."""
        return self._data[block, 1]

    def write(self, block: int, slot: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Store rows [n, kv heads, head dim] at slots slot, slot + 1, ..."""
        done, rows = 0, keys.shape[0]
        self._written.extend(slot + rows)
        while done < rows:
            chunk, offset = divmod(slot + done, CHUNK)
            take = min(rows - done, CHUNK - offset)
            piece = slice(done, done + take)
            place = self._data[block, :, chunk, :, offset : offset + take]
            place[0].copy_(keys[piece].transpose(0, 1))
            place[1].copy_(values[piece].transpose(0, 1))
            done += take

    def reusable(self, slots: int) -> int:
        """Return `slots`: every slot stands by itself."""
        return slots

    def copy_prefix(self, other: SegmentCache, slots: int) -> None:
        """Take over the first `slots` slots of another cache."""
        chunks, source = -(-slots // CHUNK), own_cache(other, TorchCache)
        self._written.extend(slots)
        self._data[:, :, :chunks] = source.first(chunks)

    def move(self, sources: Sequence[int], target: int) -> None:
        """Copy the slots `sources` to target, target + 1, ... in every block."""
        if not sources:
            return
        source = torch.as_tensor(sources, dtype=torch.long)
        rows = self._data[:, :, source // CHUNK, :, source % CHUNK]
        place = torch.arange(target, target + len(sources))
        self._data[:, :, place // CHUNK, :, place % CHUNK] = rows


def cache_rows(slots: Ints, kv_heads: int) -> NDArray[np.int64]:
    """Rows of `head dim` numbers in one block's cache for slots [paths, chunks * CHUNK].

    Returns:
        int64 [paths * chunks * kv heads * CHUNK], in that order.
    """
    chunk, offset = np.divmod(slots.astype(np.int64), CHUNK)
    row = (chunk * kv_heads * CHUNK + offset).reshape(len(slots), -1, 1, CHUNK)
    return (row + np.arange(kv_heads).reshape(1, 1, -1, 1) * CHUNK).reshape(-1)
