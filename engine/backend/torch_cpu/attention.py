"""Attention of a tile of rows over a sequence's cache, chunk by chunk along each row's own path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray

from engine.backend.ledger import Account, Purpose, Reach
from engine.backend.segment import SegmentCache, own_cache
from engine.backend.step import CHUNK, Ints
from engine.backend.torch_layers import (
    Attention,
    Turns,
    as_kept,
    softmax_parts,
    sum_in_order,
)
from engine.model.config import ModelConfig


class TorchCache(SegmentCache):
    """fp32 keys and values, of each block [2, chunks, kv heads, CHUNK, head dim].

    Slot s lies in chunk s // CHUNK at offset s % CHUNK. The memory comes zeroed from the system
    and is touched only as the sequence grows; all values are numbers (see `as_kept`), so a masked
    key contributes an exact zero.

    Args:
        config: of the model.
        blocks: the segment's; where one looks at an earlier one's keys, they are the same.
        slots: tokens there is room for.
        account: where they are entered.

    Attributes:
        own: of each block that has some of its own.
    """

    def __init__(self, config: ModelConfig, blocks: range, slots: int, account: Account) -> None:
        chunks, kept = -(-slots // CHUNK), [config.blocks[index] for index in blocks]
        shapes = [(2, chunks, own.kv_heads, CHUNK, own.head_dim) for own in kept if own.stores_kv]
        per_chunk = sum(4 * prod(shape) for shape in shapes) // max(chunks, 1)
        self._written = Reach(lambda slots: -(-slots // CHUNK) * per_chunk)
        entry = account.take(Purpose.KV, chunks * per_chunk, self._written)
        entry.lasts_as_long_as(self)
        self.own = [torch.from_numpy(np.zeros(shape, dtype=np.float32)) for shape in shapes]
        self._data, unseen = list[torch.Tensor](), iter(self.own)
        for own in kept:
            shared = own.shares_kv_with
            self._data.append(next(unseen) if shared is None else self._data[shared - blocks.start])

    @property
    def nbytes(self) -> int:
        """Bytes reserved."""
        return sum(data.nbytes for data in self.own)

    def keys(self, block: int) -> torch.Tensor:
        """[chunks, kv heads, CHUNK, head dim] of one block."""
        return self._data[block][0]

    def values(self, block: int) -> torch.Tensor:
        """[chunks, kv heads, CHUNK, head dim] of one block."""
        return self._data[block][1]

    def write(self, block: int, slot: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Store rows [n, kv heads, head dim] at slots slot, slot + 1, ..."""
        done, rows = 0, keys.shape[0]
        self._written.extend(slot + rows)
        while done < rows:
            chunk, offset = divmod(slot + done, CHUNK)
            take = min(rows - done, CHUNK - offset)
            piece = slice(done, done + take)
            place = self._data[block][:, chunk, :, offset : offset + take]
            place[0].copy_(keys[piece].transpose(0, 1))
            place[1].copy_(values[piece].transpose(0, 1))
            done += take

    def copy_prefix(self, other: SegmentCache, slots: int) -> None:
        """Take over the first `slots` slots of another cache."""
        chunks, source = -(-slots // CHUNK), own_cache(other, TorchCache)
        self._written.extend(slots)
        for data, theirs in zip(self.own, source.own, strict=True):
            data[:, :chunks] = theirs[:, :chunks]

    def move(self, sources: Sequence[int], target: int) -> None:
        """Copy the slots `sources` to target, target + 1, ... in every block."""
        source = torch.as_tensor(sources, dtype=torch.long)
        place = torch.arange(target, target + len(sources))
        for data in self.own:
            data[:, place // CHUNK, :, place % CHUNK] = data[:, source // CHUNK, :, source % CHUNK]


def cache_rows(slots: Ints, kv_heads: int) -> NDArray[np.int64]:
    """Rows of `head dim` numbers in one block's cache for slots [paths, chunks * CHUNK].

    Returns:
        int64 [paths * chunks * kv heads * CHUNK], in that order.
    """
    chunk, offset = np.divmod(slots.astype(np.int64), CHUNK)
    row = (chunk * kv_heads * CHUNK + offset).reshape(len(slots), -1, 1, CHUNK)
    return (row + np.arange(kv_heads).reshape(1, 1, -1, 1) * CHUNK).reshape(-1)


@dataclass(slots=True)
class TileContext:
    """Data that all blocks share while they compute one tile of R rows.

    Attributes:
        rows: valid rows of the tile; the others are padding.
        slot: cache slot of the first row.
        turns: rotations of the rows' positions.
        shared: number of chunks that every row reads straight from the cache.
        masks: window -> [chunks, 1, R, 1, CHUNK]; 0 where a row may look, -inf elsewhere, for the
            shared chunks and then the tail chunks.
        paths: number of tree paths with tail chunks of their own; 0 for a chain.
        tails: kv heads -> [paths * tail chunks * kv heads * CHUNK] rows of the cache (see
            `cache_rows`) that hold the paths' keys by position; empty for a chain.
        row_path: [R] path of each row.
    """

    rows: int
    slot: int
    turns: Turns
    shared: int
    masks: dict[int, torch.Tensor]
    paths: int = 0
    tails: Mapping[int, torch.Tensor] = field(default_factory=dict)
    row_path: torch.Tensor | None = None


class TileAttention(Attention[TileContext, TorchCache]):
    """Attention of one tile of rows over their own paths."""

    def run(
        self,
        x: torch.Tensor,
        seen: TileContext,
        cache: TorchCache,
        index: int,
        *,
        large: bool = False,
    ) -> torch.Tensor:
        """See `Attention.run`."""
        query, keys, values = self._projected(x, seen.turns, large=large)
        if self._block.stores_kv:
            kept = as_kept(keys[: seen.rows], values[: seen.rows], torch.float32)
            cache.write(index, seen.slot, *kept)
        return self._out(self._attend(query, seen, cache.keys(index), cache.values(index)))

    def _attend(
        self, query: torch.Tensor, tile: TileContext, keys: torch.Tensor, values: torch.Tensor
    ) -> torch.Tensor:
        """Attention of query [R, heads, head dim] over its own path -> [R, heads * head dim].

        Chunk by chunk the products have one shape, and partial sums meet in chunk order.
        """
        rows, group, dim, kv = query.shape[0], self._group, self._head_dim, self._kv_heads
        grouped = query.reshape(rows, kv, group, dim).transpose(0, 1)
        q = (grouped * self._scale).reshape(1, kv, rows * group, dim)
        scores = _chunk_products(q, keys[: tile.shared].transpose(2, 3))
        own_rows = tile.tails.get(kv)
        if own_rows is not None:
            tail_keys = self._gather(keys, own_rows)
            tail = _chunk_products(q, tail_keys.transpose(2, 3))
            scores = torch.cat((scores, self._own_rows(tail, tile, rows)))
        shares, total = softmax_parts(
            scores.view(-1, kv, rows, group, CHUNK),
            tile.masks[self._block.window],
            self._softcap,
            self._sinks,
        )
        flat = shares.view(-1, kv, rows * group, CHUNK)
        mixed = _chunk_products(flat[: tile.shared], values[: tile.shared])
        if own_rows is not None:
            per_path = flat[tile.shared :].expand(tile.paths, -1, -1, -1, -1)
            tail = _chunk_products(per_path.flatten(0, 1), self._gather(values, own_rows))
            mixed = torch.cat((mixed, self._own_rows(tail, tile, rows)))
        summed = sum_in_order(mixed.view(-1, kv, rows, group, dim))
        return (summed / total[..., None]).transpose(0, 1).reshape(rows, -1)

    def _own_rows(self, tail: torch.Tensor, tile: TileContext, rows: int) -> torch.Tensor:
        """Pick each row's own products out of those with all paths: [chunks, kv, R * group, k]."""
        width = tail.shape[-1]
        apart = tail.view(tile.paths, -1, self._kv_heads, rows, self._group, width)
        own = apart[tile.row_path, :, :, torch.arange(rows)]
        return own.permute(1, 2, 0, 3, 4).reshape(-1, self._kv_heads, rows * self._group, width)

    def _gather(self, cached: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Keys or values of tree paths, by position: [paths * tail chunks, kv, CHUNK, head dim]."""
        flat = cached.view(-1, self._head_dim).index_select(0, rows)
        return flat.view(-1, self._kv_heads, CHUNK, self._head_dim)


def _chunk_products(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """[chunks or 1, kv, m, k] x [chunks, kv, k, n] -> [chunks, kv, m, n], one product per pair."""
    chunks, kv = right.shape[:2]
    left = left.expand(chunks, -1, -1, -1)
    product = torch.bmm(left.reshape(chunks * kv, *left.shape[2:]), right.flatten(0, 1))
    return product.view(chunks, kv, *product.shape[1:])
