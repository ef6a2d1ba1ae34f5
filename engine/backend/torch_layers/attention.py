"""Attention as all of torch's devices share it: weights, rotations, the softmax."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Generic, TypeVar

import torch

from engine.backend.torch_layers.layers import LayerWeights, rms_norm
from engine.model.config import ModelConfig, RopeConfig

SeenT = TypeVar("SeenT")
CacheT = TypeVar("CacheT")
Turns = Mapping[RopeConfig, tuple[torch.Tensor, torch.Tensor]]
"""cos and sin of every way to rotate, [n, 1, rotated numbers]; the first half of sin is negated."""


class Attention(ABC, Generic[SeenT, CacheT]):
    """One block's attention; backends say how rows look at a cache."""

    def __init__(self, config: ModelConfig, weights: LayerWeights, index: int) -> None:
        prefix = f"model.layers.{index}.self_attn."
        self._heads, self._kv_heads = config.num_heads, config.num_kv_heads
        self._group = config.num_heads // config.num_kv_heads
        self._head_dim = config.head_dim
        self._scale, self._softcap = config.attention_scale, config.attention_softcap
        self._eps = config.rms_norm_eps
        self._block = config.blocks[index]
        qkv = [f"{prefix}{part}_proj" for part in "qkv"]
        self._qkv = weights.linear(qkv, bias=config.qkv_bias)
        self._out = weights.linear([f"{prefix}o_proj"], bias=config.attention_out_bias)
        self._norm: torch.Tensor | None = None  # [heads + kv heads, head dim]
        if config.qk_norm:
            norms = [weights.vector(f"{prefix}{part}_norm.weight") for part in "qk"]
            counts = self._heads, self._kv_heads
            self._norm = torch.cat(
                [norm.expand(count, -1) for norm, count in zip(norms, counts, strict=True)]
            )
        self._sinks: torch.Tensor | None = None  # [kv heads, 1, group]
        if config.sinks:
            sinks = weights.vector(f"{prefix}sinks")
            self._sinks = sinks.view(self._kv_heads, 1, self._group)

    @abstractmethod
    def run(
        self, x: torch.Tensor, seen: SeenT, cache: CacheT, index: int, *, large: bool = False
    ) -> torch.Tensor:
        """x [n, d] -> [n, d]; the rows' keys and values go to the cache's entry `index`.

        Args:
            x: fp32 [n, d].
            seen: what the rows may look at.
            cache: takes their keys and values.
            index: the block's entry there.
            large: x is not normed.
        """

    def _projected(
        self, x: torch.Tensor, turns: Turns, *, large: bool
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries, keys (both rotated) and values of x: [n, heads or kv heads, head dim]."""
        qkv = self._qkv(x, large=large).view(len(x), -1, self._head_dim)
        turning = self._heads + self._kv_heads
        placed = qkv[:, :turning]
        if self._norm is not None:
            placed = rms_norm(placed, self._norm, self._eps)
        if self._block.rope is not None:
            placed = _rotate(placed, *turns[self._block.rope])
        return placed[:, : self._heads], placed[:, self._heads :], qkv[:, turning:]


def softmax_parts(
    scores: torch.Tensor, mask: torch.Tensor, softcap: float, sinks: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Exponentials of scores [chunks, kv, R, group, CHUNK], in place, and their sums.

    Args:
        scores: products of queries with keys.
        mask: [chunks, 1, R, 1, CHUNK]; 0 where a row may look, -inf elsewhere.
        softcap: scores -> cap * tanh(scores / cap); 0: none.
        sinks: [kv, 1, group], logits that take part and add nothing.

    Returns:
        The exponentials, and the sums [kv, R, group].
    """
    if softcap:
        scores.div_(softcap).tanh_().mul_(softcap)
    scores.add_(mask)
    peak = scores.amax(dim=(0, 4))
    if sinks is not None:
        peak = torch.maximum(peak, sinks)
    shares = scores.sub_(peak[None, ..., None]).exp_()
    total = sum_in_order(shares.sum(dim=4))
    if sinks is not None:
        total = total + (sinks - peak).exp_()
    return shares, total


def sum_in_order(parts: torch.Tensor) -> torch.Tensor:
    """Sum over the first axis strictly in order; more zero parts at the end change nothing."""
    return parts[0] if len(parts) == 1 else parts.cumsum(0)[-1]


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary embedding of the first numbers of x [n, heads, head dim], halves convention."""
    dim = cos.shape[2]
    turning, half = x[..., :dim], dim // 2
    swapped = torch.cat((turning[..., half:], turning[..., :half]), dim=2)
    turned = (turning * cos).add_(swapped.mul_(sin))
    return turned if dim == x.shape[2] else torch.cat((turned, x[..., dim:]), dim=2)
