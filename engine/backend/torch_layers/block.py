"""One decoder block: attention and feed-forward, normed before and after."""

from __future__ import annotations

from typing import Generic

import torch

from engine.backend.torch_layers.attention import Attention, CacheT, SeenT
from engine.backend.torch_layers.feed_forward import FeedForward
from engine.backend.torch_layers.layers import LayerWeights, rms_norm
from engine.model.config import ModelConfig


class DecoderBlock(Generic[SeenT, CacheT]):
    """Norms of a block around its attention and feed-forward; the residual stream is fp32.

    Args:
        config: of the model.
        weights: of the model.
        index: the block's number in the model.
        attention: the block's.
        feed_forward: the block's.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: LayerWeights,
        index: int,
        attention: Attention[SeenT, CacheT],
        feed_forward: FeedForward,
    ) -> None:
        def norm(name: str) -> torch.Tensor:
            return weights.vector(f"model.layers.{index}.{name}.weight")

        self._eps = config.rms_norm_eps
        self._before_attention: torch.Tensor | None = None
        if config.fusion is None or index > 0:  # a head's first block sees what its fusion gives
            self._before_attention = norm("input_layernorm")
        self._after_attention: torch.Tensor | None = None
        self._after_feed_forward: torch.Tensor | None = None
        if config.output_norms:
            self._after_attention = norm("post_attention_layernorm")
            self._before_feed_forward = norm("pre_feedforward_layernorm")
            self._after_feed_forward = norm("post_feedforward_layernorm")
        else:
            self._before_feed_forward = norm("post_attention_layernorm")
        self._attention, self._feed_forward = attention, feed_forward

    def run(
        self,
        x: torch.Tensor,
        rows: int,
        seen: SeenT,
        cache: CacheT,
        index: int,
        given: torch.Tensor | None = None,
    ) -> None:
        """Advance the hidden states x [n, d] in place.

        Args:
            x: fp32 [n, d].
            rows: at most so many of them are valid.
            seen: what they may look at.
            cache: takes their keys and values.
            index: the block's entry there.
            given: what queries, keys and values are of where that is not x, normed.
        """
        looked = given if given is not None else self._normed(x, self._before_attention)
        added = self._attention.run(looked, seen, cache, index, large=given is not None)
        x.add_(self._normed(added, self._after_attention))
        normed = rms_norm(x, self._before_feed_forward, self._eps)
        added = self._feed_forward.run(normed, rows)
        x.add_(self._normed(added, self._after_feed_forward))

    def _normed(self, added: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
        return added if weight is None else rms_norm(added, weight, self._eps)
