"""Attention over a device's cache: chunk by chunk of positions along each row's own path.

Sizes are fixed by a forward's input buffers: a row's numbers depend on its own path alone,
whatever rows are beside it and however many chunks are looked at beyond it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from engine.backend.accelerator.input_buffers import InputBuffers
from engine.backend.accelerator.loading import Loader
from engine.backend.accelerator.memory import DeviceCache
from engine.backend.accelerator.products import Products
from engine.backend.accelerator.sizes import TILE_ROWS, heads_at_once
from engine.backend.accelerator.tree_state import Rows
from engine.backend.step import CHUNK
from engine.backend.torch_layers import (
    Attention,
    Turns,
    as_kept,
    softmax_parts,
    sum_in_order,
)
from engine.model.config import ModelConfig, RopeConfig
from engine.model.rope import rotations


@dataclass(slots=True)
class AttentionMetadata:
    """Data that all blocks share in a forward over n rows, a multiple of 16.

    Attributes:
        turns: rotations of the rows' positions.
        places: int64 [n * kv heads]; rows of a block's cache that take keys and values.
        chunks: number of the cache's first chunks, which are read in place.
        masks: window -> [chunks + tail chunks, n, CHUNK]; 0 where a row may look, -inf elsewhere.
        tails: int64 [n, tail chunks * kv heads * CHUNK] rows of a block's cache: for each row the
            keys of its path behind those chunks, by position; None for a chain.
    """

    turns: Turns
    places: torch.Tensor
    chunks: int
    masks: dict[int, torch.Tensor]
    tails: torch.Tensor | None


class DeviceAttention(Attention[AttentionMetadata, DeviceCache]):
    """Attention over a cache on a device, 16 rows at a time."""

    def __init__(self, config: ModelConfig, loader: Loader, products: Products, index: int) -> None:
        super().__init__(config, loader, index)
        self._products = products
        self._kernels = products.attention(self._heads, self._kv_heads, self._head_dim)

    def run(
        self,
        x: torch.Tensor,
        seen: AttentionMetadata,
        cache: DeviceCache,
        index: int,
        *,
        large: bool = False,
    ) -> torch.Tensor:
        """See `Attention.run`."""
        query, own_keys, own_values = self._projected(x, seen.turns, large=large)
        keys, values = cache.keys(index), cache.values(index)
        found = as_kept(own_keys, own_values, keys.dtype)
        for kept, rows in zip((keys, values), found, strict=True):
            stored = rows.reshape(-1, self._head_dim)
            kept.view(-1, self._head_dim).index_copy_(0, seen.places, stored)
        mixed = torch.empty(len(x), self._heads * self._head_dim, device=x.device)
        if self._kernels is not None:
            mask = seen.masks[self._block.window]
            manner = self._scale, self._softcap, self._sinks
            self._kernels.attend(query, (keys, values), mask, seen.tails, manner, mixed)
            return self._out(mixed)
        for start in range(0, len(x), TILE_ROWS):
            tile = slice(start, start + TILE_ROWS)
            mixed[tile] = self._attend(query, seen, tile, keys, values)
        return self._out(mixed)

    def _attend(
        self,
        query: torch.Tensor,
        seen: AttentionMetadata,
        rows: slice,
        keys: torch.Tensor,
        values: torch.Tensor,
    ) -> torch.Tensor:
        """Attention of 16 rows of the query, [n, heads, head dim] -> [16, heads * head dim]."""
        group, dim, kv = self._group, self._head_dim, self._kv_heads
        scaled = query[rows].reshape(TILE_ROWS, kv, group, dim) * self._scale
        q = scaled.transpose(0, 1).reshape(kv, TILE_ROWS * group, dim)
        mask = seen.masks[self._block.window][:, rows].unsqueeze(2).unsqueeze(1)
        tails: Pair | None = None
        if seen.tails is not None:
            own = seen.tails[rows].reshape(-1)
            tails = _picked(keys, own), _picked(values, own)
        step = heads_at_once(seen.chunks, kv, group, dim)
        parts = []
        for first in range(0, kv, step):
            some = slice(first, first + step)
            parts.append(
                attend(
                    self._products,
                    q[some],
                    (keys[: seen.chunks, some], values[: seen.chunks, some]),
                    tails and (tails[0][:, some], tails[1][:, some]),
                    mask,
                    self._softcap,
                    None if self._sinks is None else self._sinks[some],
                )
            )
        mixed = parts[0] if len(parts) == 1 else torch.cat(parts)
        return mixed.transpose(0, 1).reshape(TILE_ROWS, -1)


Pair = tuple[torch.Tensor, torch.Tensor]


def attend(
    products: Products,
    q: torch.Tensor,
    main: Pair,
    tails: Pair | None,
    mask: torch.Tensor,
    softcap: float,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """Attention of 16 rows: the function that kernels take the place of.

    Args:
        products: the device's arithmetic.
        q: scaled queries, [kv, 16 * group, head dim].
        main: keys and values where they lie, [chunks, kv, CHUNK, head dim].
        tails: those of each row's path behind them, [16 * tail chunks, kv, CHUNK, head dim].
        mask: [chunks + tail chunks, 1, 16, 1, CHUNK]; see `AttentionMetadata.masks`.
        softcap: scores -> cap * tanh(scores / cap); 0: none.
        sinks: [kv, 1, group], logits that take part and add nothing.

    Returns:
        [kv, 16, group, head dim]
    """
    kv, rows, dim = q.shape
    group = rows // TILE_ROWS
    scores = _chunk_products(products, q, main[0].transpose(2, 3))
    if tails is not None:
        scores = torch.cat((scores, _own(_chunk_products(products, q, tails[0].transpose(2, 3)))))
    scores = scores.view(-1, kv, TILE_ROWS, group, CHUNK)
    shares, total = softmax_parts(scores, mask, softcap, sinks)
    flat = shares.view(-1, kv, rows, CHUNK)
    chunks = len(main[0])
    mixed = _chunk_products(products, flat[:chunks], main[1])
    if tails is not None:
        for_each = flat[chunks:].expand(TILE_ROWS, -1, -1, -1, -1).flatten(0, 1)
        mixed = torch.cat((mixed, _own(_chunk_products(products, for_each, tails[1]))))
    summed = sum_in_order(mixed.view(-1, kv, TILE_ROWS, group, dim))
    return summed / total[..., None]


def _chunk_products(products: Products, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """[kv, m, k] or [chunks, kv, m, k] x [chunks, kv, k, n] -> [chunks, kv, m, n]."""
    chunks, kv = right.shape[:2]
    every = products.for_keys(left).expand(chunks, *left.shape[-3:])
    product = products.with_keys(every.reshape(chunks * kv, *left.shape[-2:]), right.flatten(0, 1))
    return product.view(chunks, kv, *product.shape[1:])


def _picked(cached: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Keys or values of the rows' paths, by position: [16 * tail chunks, kv, CHUNK, head dim]."""
    kv, dim = cached.shape[1], cached.shape[3]
    return cached.view(-1, dim).index_select(0, rows).view(-1, kv, CHUNK, dim)


def _own(products: torch.Tensor) -> torch.Tensor:
    """Pick each row's own products out of those of all rows with the tails of all rows.

    [16 * tail chunks, kv, 16 * group, k] -> [tail chunks, kv, 16 * group, k]
    """
    paths, kv, rows, width = products.shape
    apart = products.view(TILE_ROWS, paths // TILE_ROWS, kv, TILE_ROWS, rows // TILE_ROWS, width)
    own = apart.diagonal(dim1=0, dim2=3)  # [tail chunks, kv, group, k, 16]
    return own.permute(0, 1, 4, 2, 3).reshape(paths // TILE_ROWS, kv, rows, width)


class MetadataMaker:
    """Makes the metadata of a segment's forwards.

    Args:
        blocks: those of the segment.

    Attributes:
        positions: for so many there are rotations; they move when there are more.
    """

    def __init__(self, config: ModelConfig, blocks: range, device: torch.device) -> None:
        own = [config.blocks[index] for index in blocks]
        self._ropes = dict.fromkeys(block.rope for block in own if block.rope is not None)
        self._windows = {block.window for block in own}
        self._kv_heads, self._device = config.typical.kv_heads, device
        self.positions = 0
        self._tables: dict[RopeConfig, tuple[torch.Tensor, torch.Tensor]] = {}

    def reach(self, positions: int) -> None:
        """Make rotations for so many positions, [positions, rotated / 2]; callers enter them."""
        if positions <= self.positions:
            return
        self.positions = positions
        for rope in self._ropes:
            cos, sin = rotations(rope, positions)
            self._tables[rope] = (
                torch.from_numpy(cos).to(self._device),
                torch.from_numpy(sin).to(self._device),
            )

    def of_inputs(self, inputs: InputBuffers, chunks: int) -> AttentionMetadata:
        """Metadata of rows that look at the first `chunks` chunks of the cache."""
        rows, tail = inputs.shape.rows, inputs.shape.tail
        own = inputs.positions.view(1, rows, 1)
        keys = torch.arange(chunks * CHUNK, dtype=torch.int32, device=own.device)
        keys = keys.view(-1, 1, CHUNK)
        behind = tails = None
        if tail:
            behind = keys >= inputs.base
            after = inputs.base + torch.arange(tail * CHUNK, dtype=torch.int32, device=own.device)
            keys = torch.cat((keys, after.view(-1, 1, CHUNK)))
            tails = self._rows_of(inputs.tail.reshape(rows * tail, CHUNK)).view(rows, -1)
        masks = {window: self._mask(keys, own, window, behind) for window in self._windows}
        turns = {rope: self._turns(rope, inputs.positions) for rope in self._ropes}
        places = self._rows_of(inputs.slots.view(-1, 1))
        return AttentionMetadata(turns, places, chunks, masks, tails)

    def of_drafted(self, rows: Rows, chunks: int) -> AttentionMetadata:
        """Metadata of drafted nodes that look at the first `chunks` chunks of the cache.

        Their own paths lie in it by slot, and are masked there: the order in which a draft sums up
        its keys is nobody's concern, and nothing has to be gathered.
        """
        keys = torch.arange(chunks * CHUNK, dtype=torch.int64, device=rows.slots.device)
        before = keys < rows.start
        seen = before.expand(TILE_ROWS, -1).clone()
        seen.scatter_(1, rows.paths.clamp(max=len(keys) - 1), True)
        level = torch.div(keys - rows.start, rows.width, rounding_mode="floor")
        places = torch.where(before, keys, rows.start + level)
        own = rows.positions.unsqueeze(1)
        masks = {}
        for window in self._windows:
            shown = seen & (places > own - window) if window else seen
            hidden = ~shown.view(TILE_ROWS, chunks, CHUNK).transpose(0, 1).contiguous()
            mask = torch.zeros(hidden.shape, device=keys.device)
            masks[window] = mask.masked_fill_(hidden, -torch.inf)
        turns = {rope: self._turns(rope, rows.positions) for rope in self._ropes}
        places = self._rows_of(rows.slots.view(-1, 1))
        return AttentionMetadata(turns, places, chunks, masks, None)

    def _turns(
        self, rope: RopeConfig, positions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        cos, sin = (table.index_select(0, positions) for table in self._tables[rope])
        both, signed = torch.cat((cos, cos), dim=1), torch.cat((-sin, sin), dim=1)
        return both.unsqueeze(1), signed.unsqueeze(1)

    def _rows_of(self, slots: torch.Tensor) -> torch.Tensor:
        """Rows of a block's cache that hold slots [groups, count]: [groups * kv heads * count]."""
        wide = slots.long().unsqueeze(1)
        first = torch.div(wide, CHUNK, rounding_mode="floor") * (self._kv_heads * CHUNK)
        heads = torch.arange(self._kv_heads, device=slots.device).view(1, -1, 1) * CHUNK
        return (first + wide % CHUNK + heads).reshape(-1)

    def _mask(
        self, keys: torch.Tensor, own: torch.Tensor, window: int, behind: torch.Tensor | None
    ) -> torch.Tensor:
        """0 where rows at positions `own` may look at keys, -inf elsewhere.

        `behind` tells of the first keys those that the rows' own paths replace.
        """
        hidden = keys > own
        if window:
            hidden |= keys <= own - window
        if behind is not None:
            hidden[: len(behind)] |= behind
        return torch.zeros(hidden.shape, device=own.device).masked_fill_(hidden, -torch.inf)
