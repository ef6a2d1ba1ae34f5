"""Attention of a tile of rows over the cache, chunk by chunk along each row's own path."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from engine.backend.step import CHUNK
from engine.backend.torch_cpu.cache import TorchCache
from engine.backend.torch_cpu.linear import Linear, rms_norm, vector
from engine.model.config import ModelConfig, RopeConfig
from engine.model.weights.readable import Weights


@dataclass(slots=True)
class TileContext:
    """What all blocks share while they compute one tile of R rows.

    Attributes:
        rows: valid rows of the tile; the others are padding.
        slot: cache slot of the first row.
        turns: cos and sin of every way to rotate, [R, 1, rotated numbers]; sin carries the sign of
            the rotated half.
        shared: number of chunks that every row reads straight from the cache.
        masks: window -> [chunks, 1, R, 1, CHUNK]; 0 where a row may look, -inf elsewhere, for the
            shared chunks and then the tail chunks.
        paths: number of tree paths with tail chunks of their own; 0 for a chain.
        tail: [paths * tail chunks * kv heads * CHUNK] rows of the cache (see `cache_rows`)
            that hold the paths' keys by position.
        row_path: [R] path of each row.
    """

    rows: int
    slot: int
    turns: dict[RopeConfig, tuple[torch.Tensor, torch.Tensor]]
    shared: int
    masks: dict[int, torch.Tensor]
    paths: int = 0
    tail: torch.Tensor | None = None
    row_path: torch.Tensor | None = None


class Attention:
    """Weights and arithmetic of one block's attention."""

    def __init__(self, config: ModelConfig, weights: Weights, index: int) -> None:
        prefix = f"model.layers.{index}.self_attn."
        self._heads, self._kv_heads = config.num_heads, config.num_kv_heads
        self._group = config.num_heads // config.num_kv_heads
        self._head_dim = config.head_dim
        self._scale, self._softcap = config.attention_scale, config.attention_softcap
        self._eps = config.rms_norm_eps
        self._block = config.blocks[index]
        names = [f"{prefix}{part}_proj" for part in "qkv"]
        self._qkv = Linear(weights, names, bias=config.qkv_bias)
        self._out = Linear(weights, [f"{prefix}o_proj"], bias=config.attention_out_bias)
        self._norm: torch.Tensor | None = None  # [heads + kv heads, head dim]
        if config.qk_norm:
            norms = [vector(weights, f"{prefix}{part}_norm.weight") for part in "qk"]
            counts = (self._heads, self._kv_heads)
            repeated = [n.expand(count, -1) for n, count in zip(norms, counts, strict=True)]
            self._norm = torch.cat(repeated)
        self._sinks: torch.Tensor | None = None  # [kv heads, 1, group]
        if config.sinks:
            sinks = vector(weights, f"{prefix}sinks")
            self._sinks = sinks.view(self._kv_heads, 1, self._group)

    @property
    def linears(self) -> list[Linear]:
        """All matrices."""
        return [self._qkv, self._out]

    def run(
        self, x: torch.Tensor, tile: TileContext, cache: TorchCache, index: int
    ) -> torch.Tensor:
        """x [R, d] -> [R, d]; the rows' keys and values go to the cache's entry `index`."""
        qkv = self._qkv(x).view(x.shape[0], -1, self._head_dim)
        turning = self._heads + self._kv_heads
        placed = qkv[:, :turning]
        if self._norm is not None:
            placed = rms_norm(placed, self._norm, self._eps)
        if self._block.rope is not None:
            placed = _rotate(placed, *tile.turns[self._block.rope])
        keys, values = placed[:, self._heads :], qkv[:, turning:]
        cache.write(index, tile.slot, keys[: tile.rows], values[: tile.rows])
        query = placed[:, : self._heads]
        return self._out(self._attend(query, tile, cache.keys(index), cache.values(index)))

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
        if tile.tail is not None:
            tail_keys = self._gather(keys, tile.tail)
            tail = _chunk_products(q, tail_keys.transpose(2, 3))
            scores = torch.cat((scores, self._own_rows(tail, tile, rows)))
        shares, total = self._shares(scores.view(-1, kv, rows, group, CHUNK), tile)
        flat = shares.view(-1, kv, rows * group, CHUNK)
        mixed = _chunk_products(flat[: tile.shared], values[: tile.shared])
        if tile.tail is not None:
            per_path = flat[tile.shared :].expand(tile.paths, -1, -1, -1, -1)
            tail = _chunk_products(per_path.flatten(0, 1), self._gather(values, tile.tail))
            mixed = torch.cat((mixed, self._own_rows(tail, tile, rows)))
        summed = _in_order(mixed.view(-1, kv, rows, group, dim))
        return (summed / total[..., None]).transpose(0, 1).reshape(rows, -1)

    def _shares(self, scores: torch.Tensor, tile: TileContext) -> tuple[torch.Tensor, torch.Tensor]:
        """Of scores [chunks, kv, R, group, CHUNK], their exponentials and those's sum."""
        if self._softcap:
            scores.div_(self._softcap).tanh_().mul_(self._softcap)
        scores.add_(tile.masks[self._block.window])
        peak = scores.amax(dim=(0, 4))
        if self._sinks is not None:
            peak = torch.maximum(peak, self._sinks)
        shares = scores.sub_(peak[None, ..., None]).exp_()
        total = _in_order(shares.sum(dim=4))
        if self._sinks is not None:
            total = total + (self._sinks - peak).exp_()
        return shares, total

    def _own_rows(self, tail: torch.Tensor, tile: TileContext, rows: int) -> torch.Tensor:
        """Of products of all rows with all paths, each row's own: [chunks, kv, R * group, k]."""
        width = tail.shape[-1]
        apart = tail.view(tile.paths, -1, self._kv_heads, rows, self._group, width)
        own = apart[tile.row_path, :, :, torch.arange(rows)]
        return own.permute(1, 2, 0, 3, 4).reshape(-1, self._kv_heads, rows * self._group, width)

    def _gather(self, cached: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Keys or values of tree paths, by position: [paths * tail chunks, kv, CHUNK, head dim]."""
        flat = cached.view(-1, self._head_dim).index_select(0, rows)
        return flat.view(-1, self._kv_heads, CHUNK, self._head_dim)


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary embedding of the first numbers of x [R, heads, head dim], halves convention."""
    dim = cos.shape[2]
    turning, half = x[..., :dim], dim // 2
    swapped = torch.cat((turning[..., half:], turning[..., :half]), dim=2)
    turned = (turning * cos).add_(swapped.mul_(sin))
    return turned if dim == x.shape[2] else torch.cat((turned, x[..., dim:]), dim=2)


def _chunk_products(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """[chunks or 1, kv, m, k] x [chunks, kv, k, n] -> [chunks, kv, m, n], one product per pair."""
    chunks, kv = right.shape[:2]
    left = left.expand(chunks, -1, -1, -1)
    product = torch.bmm(left.reshape(chunks * kv, *left.shape[2:]), right.flatten(0, 1))
    return product.view(chunks, kv, *product.shape[1:])


def _in_order(parts: torch.Tensor) -> torch.Tensor:
    """Sum over the first axis strictly in order; more zero parts at the end change nothing."""
    return parts[0] if parts.shape[0] == 1 else parts.cumsum(0)[-1]
