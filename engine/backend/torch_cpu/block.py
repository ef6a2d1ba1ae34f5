"""One decoder block on a tile of rows: attention and feed-forward, normed before and after."""

from __future__ import annotations

import torch

from engine.backend.torch_cpu.attention import Attention, TileContext
from engine.backend.torch_cpu.cache import TorchCache
from engine.backend.torch_cpu.feed_forward import feed_forward
from engine.backend.torch_cpu.linear import Linear, rms_norm, vector
from engine.model.config import ModelConfig
from engine.model.weights.readable import Weights


class Block:
    """Weights and arithmetic of one block; every tensor is fp32, every product [R, k] x [k, n]."""

    def __init__(self, config: ModelConfig, weights: Weights, index: int) -> None:
        def norm(name: str) -> torch.Tensor:
            return vector(weights, f"model.layers.{index}.{name}.weight")

        self._eps = config.rms_norm_eps
        self._before_attention: torch.Tensor | None = None
        if index or config.fusion is None:  # what a head begins with is normed there, or not at all
            self._before_attention = norm("input_layernorm")
        self._after_attention: torch.Tensor | None = None
        self._after_feed_forward: torch.Tensor | None = None
        if config.output_norms:
            self._after_attention = norm("post_attention_layernorm")
            self._before_feed_forward = norm("pre_feedforward_layernorm")
            self._after_feed_forward = norm("post_feedforward_layernorm")
        else:
            self._before_feed_forward = norm("post_attention_layernorm")
        self._attention = Attention(config, weights, index)
        self._feed_forward = feed_forward(config, weights, index)

    @property
    def products(self) -> set[tuple[int, int]]:
        """(inner, outer) of every matrix product."""
        return {linear.product for linear in self._linears}

    @property
    def weight_bytes(self) -> int:
        """Bytes of matrices held."""
        return sum(linear.nbytes for linear in self._linears)

    @property
    def _linears(self) -> list[Linear]:
        return [*self._attention.linears, *self._feed_forward.linears]

    def run(
        self,
        x: torch.Tensor,
        tile: TileContext,
        cache: TorchCache,
        index: int,
        seen: torch.Tensor | None = None,
    ) -> None:
        """Advance the hidden states x [R, d] in place; `index` is the block's cache entry.

        `seen`: what attention gets instead of x, as it is.
        """
        if seen is None:
            seen = self._normed(x, self._before_attention)
        added = self._attention.run(seen, tile, cache, index)
        x.add_(self._normed(added, self._after_attention))
        normed = rms_norm(x, self._before_feed_forward, self._eps)
        added = self._feed_forward.run(normed, tile.rows)
        x.add_(self._normed(added, self._after_feed_forward))

    def _normed(self, added: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
        return added if weight is None else rms_norm(added, weight, self._eps)
