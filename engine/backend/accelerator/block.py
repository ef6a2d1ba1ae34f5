"""One decoder block on a device: attention and feed-forward, normed before and after."""

from __future__ import annotations

import torch

from engine.backend.accelerator.attention import Attention, Scene
from engine.backend.accelerator.cache import DeviceCache
from engine.backend.accelerator.feed_forward import feed_forward
from engine.backend.accelerator.linear import rms_norm
from engine.backend.accelerator.loading import Loader
from engine.backend.accelerator.products import Products
from engine.model.config import ModelConfig


class Block:
    """Weights and arithmetic of one block; the residual stream is fp32."""

    def __init__(self, config: ModelConfig, loader: Loader, products: Products, index: int) -> None:
        def norm(name: str) -> torch.Tensor:
            return loader.vector(f"model.layers.{index}.{name}.weight")

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
        self._attention = Attention(config, loader, products, index)
        self._feed_forward = feed_forward(config, loader, index)

    def run(
        self,
        x: torch.Tensor,
        rows: int,
        scene: Scene,
        cache: DeviceCache,
        index: int,
        seen: torch.Tensor | None = None,
    ) -> None:
        """Advance the hidden states x [n, d] in place.

        Args:
            x: fp32 [n, d].
            rows: at most so many of them are valid.
            scene: what they may look at.
            cache: takes their keys and values.
            index: the block's entry there.
            seen: what queries, keys and values are of where that is not x, normed.
        """
        looked = seen if seen is not None else self._normed(x, self._before_attention)
        added = self._attention.run(looked, scene, cache, index, large=seen is not None)
        x.add_(self._normed(added, self._after_attention))
        normed = rms_norm(x, self._before_feed_forward, self._eps)
        added = self._feed_forward.run(normed, rows)
        x.add_(self._normed(added, self._after_feed_forward))

    def _normed(self, added: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
        return added if weight is None else rms_norm(added, weight, self._eps)
