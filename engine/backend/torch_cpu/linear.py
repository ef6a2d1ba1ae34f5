"""A model's weights as torch's fp32 matrices and vectors, and mixtures of experts of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from engine.backend.torch_layers import Dense, choose_experts
from engine.model.config import Activation, Experts
from engine.model.weights.readable import Weights


class FloatLinear:
    """Stored matrices [outer, inner] side by side: rows [R, inner] -> [R, sum of outers]."""

    __slots__ = ("__weakref__", "_bias", "_matrix")

    def __init__(self, weights: Weights, names: Sequence[str], *, bias: bool) -> None:
        parts = [torch.from_numpy(weights.float32(f"{name}.weight")).t() for name in names]
        self._matrix = torch.cat(parts, dim=1).contiguous()
        self._bias: torch.Tensor | None = None
        if bias:
            biases = [torch.from_numpy(weights.float32(f"{name}.bias")) for name in names]
            self._bias = torch.cat(biases)

    def __call__(
        self, x: torch.Tensor, *, large: bool = False, exact: bool = False
    ) -> torch.Tensor:
        """The product, with the bias added; fp32 is large and exact enough for all."""
        del large, exact
        y = x @ self._matrix
        return y if self._bias is None else y.add_(self._bias)

    @property
    def matrix(self) -> torch.Tensor:
        """The weights, [inner, outer]."""
        return self._matrix

    @property
    def product(self) -> tuple[int, int]:
        """Inner and outer size."""
        return self._matrix.shape[0], self._matrix.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._matrix.nbytes + (0 if self._bias is None else self._bias.nbytes)


class FloatWeights:
    """See `LayerWeights`.

    Attributes:
        linears: everything with matrices that was handed out.
    """

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self.linears: list[FloatLinear] = []

    def vector(self, name: str) -> torch.Tensor:
        """A norm's weights, or sinks."""
        return torch.from_numpy(self._weights.float32(name))

    def linear(self, layers: Sequence[str], *, bias: bool) -> FloatLinear:
        """Layers with one input, side by side."""
        linear = FloatLinear(self._weights, layers, bias=bias)
        self.linears.append(linear)
        return linear


class TileMixture:
    """Each row goes through the experts that the router ranks highest for it.

    A row's parts meet in ascending order of the experts, whoever else is in the tile, and every
    product has the tile's shape.
    """

    __slots__ = ("_config", "_experts", "_router")

    def __init__(
        self, experts: Experts, activation: Activation, weights: FloatWeights, prefix: str
    ) -> None:
        self._config = experts
        self._router = weights.linear([f"{prefix}.router"], bias=experts.bias)
        self._experts = [
            Dense(
                activation,
                weights.linear([f"{name}.gate_proj", f"{name}.up_proj"], bias=experts.bias),
                weights.linear([f"{name}.down_proj"], bias=experts.bias),
            )
            for name in (f"{prefix}.experts.{index}" for index in range(experts.count))
        ]

    def run(self, x: torch.Tensor, rows: int) -> torch.Tensor:
        """x [R, d] -> [R, d]; padding gets zeros."""
        chosen, shares = choose_experts(self._router(x)[:rows], self._config)
        result = torch.zeros_like(x)
        for index in sorted(set(chosen.flatten().tolist())):
            row, place = torch.where(chosen == index)
            found = self._experts[index].run(x, rows)
            result[row] += found[row] * shares[row, place].unsqueeze(1)
        return result
