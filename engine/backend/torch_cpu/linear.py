"""What blocks are made of: matrix products with a bias, and norms."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from engine.model.weights.readable import Weights


class Linear:
    """Stored matrices [outer, inner] side by side: rows [R, inner] -> [R, sum of outers]."""

    __slots__ = ("__weakref__", "_bias", "_matrix")

    def __init__(self, weights: Weights, names: Sequence[str], *, bias: bool) -> None:
        parts = [torch.from_numpy(weights.float32(f"{name}.weight")).t() for name in names]
        self._matrix = torch.cat(parts, dim=1).contiguous()
        self._bias: torch.Tensor | None = None
        if bias:
            self._bias = torch.cat([vector(weights, f"{name}.bias") for name in names])

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """The product, with the bias added."""
        y = x @ self._matrix
        return y if self._bias is None else y.add_(self._bias)

    @property
    def matrix(self) -> torch.Tensor:
        """[inner, outer]."""
        return self._matrix

    @property
    def product(self) -> tuple[int, int]:
        """Inner and outer size."""
        return self._matrix.shape[0], self._matrix.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._matrix.nbytes + (0 if self._bias is None else self._bias.nbytes)


def vector(weights: Weights, name: str) -> torch.Tensor:
    """A stored vector."""
    return torch.from_numpy(weights.float32(name))


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """x [..., d] over its root mean square, times weight [..., d]."""
    scale = (x * x).mean(dim=-1, keepdim=True).add_(eps).rsqrt_()
    return (x * scale).mul_(weight)
