"""The building blocks of layers: products and vectors that a backend loads, and norms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch


class Projection(Protocol):
    """Stored matrices side by side, with a bias: fp32 rows [n, inner] -> [n, sum of outers]."""

    def __call__(
        self, x: torch.Tensor, *, large: bool = False, exact: bool = False
    ) -> torch.Tensor:
        """The product.

        Args:
            x: fp32 [n, inner].
            large: x may hold numbers beyond fp16's range.
            exact: in fp32 throughout.
        """
        ...


class LayerWeights(Protocol):
    """Brings a model's weights to where a backend computes with them."""

    def vector(self, name: str) -> torch.Tensor:
        """A norm's weights, or sinks, in fp32."""
        ...

    def linear(self, layers: Sequence[str], *, bias: bool) -> Projection:
        """Layers with one input, side by side."""
        ...


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """x [..., d] over its root mean square, times weight [..., d]."""
    scale = (x * x).mean(dim=-1, keepdim=True).add_(eps).rsqrt_()
    return (x * scale).mul_(weight)
