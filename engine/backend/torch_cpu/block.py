"""One decoder block on a tile of rows: norm, attention over the cache, norm, SwiGLU."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.functional import silu

from engine.backend.segment import Weights
from engine.backend.step import CHUNK
from engine.backend.torch_cpu.cache import TorchCache
from engine.model.config import ModelConfig


@dataclass(slots=True)
class TileContext:
    """What all blocks share while they compute one tile of R rows.

    Attributes:
        rows: valid rows of the tile; the others are padding.
        slot: cache slot of the first row.
        cos, sin: [R, 1, head dim]; sin carries the sign of the rotated half.
        shared: number of chunks that every row reads straight from the cache.
        mask: [chunks, 1, R, 1, CHUNK]; 0 where a row may look, -inf elsewhere, for the shared
            chunks and then the tail chunks.
        paths: number of tree paths with tail chunks of their own; 0 for a chain.
        tail: [paths * tail chunks * kv heads * CHUNK] rows of the cache (see `cache_rows`)
            that hold the paths' keys by position.
        row_path: [R] path of each row.
    """

    rows: int
    slot: int
    cos: torch.Tensor
    sin: torch.Tensor
    shared: int
    mask: torch.Tensor
    paths: int = 0
    tail: torch.Tensor | None = None
    row_path: torch.Tensor | None = None


def transposed(weights: Weights, *names: str) -> torch.Tensor:
    """The matrices [outer, inner] side by side as one contiguous [inner, sum of outers]."""
    parts = [torch.from_numpy(weights.float32(name)).t() for name in names]
    return torch.cat(parts, dim=1).contiguous()


class Block:
    """Weights and arithmetic of one block; every tensor is fp32, every product [R, k] x [k, n]."""

    def __init__(self, config: ModelConfig, weights: Weights, index: int) -> None:
        prefix = f"model.layers.{index}."
        attention, mlp = prefix + "self_attn.", prefix + "mlp."
        self._heads, self._kv_heads = config.num_heads, config.num_kv_heads
        self._group = config.num_heads // config.num_kv_heads
        self._head_dim = config.head_dim
        self._scale = config.head_dim**-0.5
        self._eps = config.rms_norm_eps
        self._intermediate = config.intermediate_size

        def vector(name: str) -> torch.Tensor:
            return torch.from_numpy(weights.float32(name))

        def bias(present: bool, *names: str) -> torch.Tensor | None:
            return torch.cat([vector(f"{name}.bias") for name in names]) if present else None

        qkv = [f"{attention}{part}_proj" for part in "qkv"]
        gate_up = [f"{mlp}gate_proj", f"{mlp}up_proj"]
        self._input_norm = vector(f"{prefix}input_layernorm.weight")
        self._post_norm = vector(f"{prefix}post_attention_layernorm.weight")
        self._qkv = transposed(weights, *(f"{name}.weight" for name in qkv))
        self._qkv_bias = bias(config.qkv_bias, *qkv)
        self._out = transposed(weights, f"{attention}o_proj.weight")
        self._out_bias = bias(config.attention_out_bias, f"{attention}o_proj")
        self._gate_up = transposed(weights, *(f"{name}.weight" for name in gate_up))
        self._gate_up_bias = bias(config.mlp_bias, *gate_up)
        self._down = transposed(weights, f"{mlp}down_proj.weight")
        self._down_bias = bias(config.mlp_bias, f"{mlp}down_proj")

    @property
    def products(self) -> set[tuple[int, int]]:
        """(inner, outer) of every matrix product."""
        matrices = (self._qkv, self._out, self._gate_up, self._down)
        return {(matrix.shape[0], matrix.shape[1]) for matrix in matrices}

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights held."""
        held = (getattr(self, name) for name in vars(self))
        return sum(tensor.nbytes for tensor in held if isinstance(tensor, torch.Tensor))

    def run(self, x: torch.Tensor, tile: TileContext, cache: TorchCache, index: int) -> None:
        """Advance the hidden states x [R, d] in place; `index` is the block's cache entry."""
        normed = rms_norm(x, self._input_norm, self._eps)
        qkv = _product(normed, self._qkv, self._qkv_bias).view(x.shape[0], -1, self._head_dim)
        turning = self._heads + self._kv_heads
        rotated = _rotate(qkv[:, :turning], tile.cos, tile.sin)
        keys, values = rotated[:, self._heads :], qkv[:, turning:]
        cache.write(index, tile.slot, keys[: tile.rows], values[: tile.rows])
        mixed = self._attend(
            rotated[:, : self._heads], tile, cache.keys(index), cache.values(index)
        )
        x.add_(_product(mixed, self._out, self._out_bias))
        normed = rms_norm(x, self._post_norm, self._eps)
        gate_up = _product(normed, self._gate_up, self._gate_up_bias)
        # Slices keep the rows apart, so that a row's vector tail is its own, not the tile's.
        gate, up = gate_up[:, : self._intermediate], gate_up[:, self._intermediate :]
        x.add_(_product(silu(gate).mul_(up), self._down, self._down_bias))

    def _attend(
        self, query: torch.Tensor, tile: TileContext, keys: torch.Tensor, values: torch.Tensor
    ) -> torch.Tensor:
        """Attention of query [R, heads, head dim] over its own path -> [R, heads * head dim].

        Chunk by chunk the products have one shape, and partial sums meet in chunk order.
        """
        rows, group, dim, kv = query.shape[0], self._group, self._head_dim, self._kv_heads
        grouped = query.reshape(rows, kv, group, dim).transpose(0, 1)
        q = (grouped * self._scale).reshape(1, kv, rows * group, dim)
        shared_keys, shared_values = keys[: tile.shared], values[: tile.shared]
        scores = _chunk_products(q, shared_keys.transpose(2, 3))
        if tile.tail is not None:
            tail_keys = self._gather(keys, tile.tail)
            tail = _chunk_products(q, tail_keys.transpose(2, 3))
            scores = torch.cat((scores, self._own_rows(tail, tile, rows)))
        scores = scores.view(-1, kv, rows, group, CHUNK).add_(tile.mask)
        peak = scores.amax(dim=(0, 4), keepdim=True)
        shares = scores.sub_(peak).exp_()
        total = _in_order(shares.sum(dim=4))
        flat = shares.view(-1, kv, rows * group, CHUNK)
        mixed = _chunk_products(flat[: tile.shared], shared_values)
        if tile.tail is not None:
            per_path = flat[tile.shared :].expand(tile.paths, -1, -1, -1, -1)
            tail = _chunk_products(per_path.flatten(0, 1), self._gather(values, tile.tail))
            mixed = torch.cat((mixed, self._own_rows(tail, tile, rows)))
        summed = _in_order(mixed.view(-1, kv, rows, group, dim))
        return (summed / total[..., None]).transpose(0, 1).reshape(rows, -1)

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


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """x [R, d] over its root mean square per row, times weight [d]."""
    scale = (x * x).mean(dim=1, keepdim=True).add_(eps).rsqrt_()
    return (x * scale).mul_(weight)


def _product(x: torch.Tensor, matrix: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    y = x @ matrix
    return y if bias is None else y.add_(bias)


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary embedding of x [R, heads, head dim], halves convention."""
    half = x.shape[2] // 2
    swapped = torch.cat((x[..., half:], x[..., :half]), dim=2)
    return (x * cos).add_(swapped.mul_(sin))


def _chunk_products(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """[chunks or 1, kv, m, k] x [chunks, kv, k, n] -> [chunks, kv, m, n], one product per pair."""
    chunks, kv = right.shape[:2]
    left = left.expand(chunks, -1, -1, -1)
    product = torch.bmm(left.reshape(chunks * kv, *left.shape[2:]), right.flatten(0, 1))
    return product.view(chunks, kv, *product.shape[1:])


def _in_order(parts: torch.Tensor) -> torch.Tensor:
    """Sum over the first axis strictly in order; more zero parts at the end change nothing."""
    return parts[0] if parts.shape[0] == 1 else parts.cumsum(0)[-1]
