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

    def run(self, x: torch.Tensor, rows: int, scene: Scene, cache: DeviceCache, index: int) -> None:
        """Advance the hidden states x [n, d] in place; `index` is the block's cache entry."""
        normed = rms_norm(x, self._before_attention, self._eps)
        added = self._attention.run(normed, scene, cache, index)
        x.add_(self._normed(added, self._after_attention))
        normed = rms_norm(x, self._before_feed_forward, self._eps)
        added = self._feed_forward.run(normed, rows)
        x.add_(self._normed(added, self._after_feed_forward))

    def _normed(self, added: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
        return added if weight is None else rms_norm(added, weight, self._eps)
