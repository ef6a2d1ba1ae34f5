"""Feed-forwards: dense, or a choice of experts."""

from __future__ import annotations

from typing import Protocol

import torch
from torch.nn.functional import gelu, silu

from engine.backend.torch_cpu.linear import Linear
from engine.model.config import Activation, Experts, ModelConfig
from engine.model.weights.readable import Weights

_CLAMP = 7.0
_SLOPE = 1.702


class FeedForward(Protocol):
    """What a block does to each row on its own."""

    @property
    def linears(self) -> list[Linear]:
        """All matrices."""
        ...

    def run(self, x: torch.Tensor, rows: int) -> torch.Tensor:
        """x [R, d], of which `rows` are valid -> [R, d]."""
        ...


def feed_forward(config: ModelConfig, weights: Weights, index: int) -> FeedForward:
    """The feed-forward of a block."""
    prefix = f"model.layers.{index}.mlp"
    experts = config.blocks[index].experts
    if experts is not None:
        return Mixture(experts, config.activation, weights, prefix)
    return Dense(config.activation, weights, prefix, config.intermediate_size, bias=config.mlp_bias)


class Dense:
    """down(activation(gate(x)) * up(x))."""

    __slots__ = ("_activation", "_down", "_gate_up", "_inner")

    def __init__(
        self, activation: Activation, weights: Weights, prefix: str, inner: int, *, bias: bool
    ) -> None:
        self._activation, self._inner = activation, inner
        self._gate_up = Linear(weights, (f"{prefix}.gate_proj", f"{prefix}.up_proj"), bias=bias)
        self._down = Linear(weights, (f"{prefix}.down_proj",), bias=bias)

    @property
    def linears(self) -> list[Linear]:
        """All matrices."""
        return [self._gate_up, self._down]

    def run(self, x: torch.Tensor, rows: int) -> torch.Tensor:
        """x [R, d] -> [R, d]."""
        del rows  # every product has the tile's shape
        gate_up = self._gate_up(x)
        # Slices keep the rows apart, so that a row's vector tail is its own, not the tile's.
        gate, up = gate_up[:, : self._inner], gate_up[:, self._inner :]
        return self._down(self._gated(gate, up))

    def _gated(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        if self._activation == "silu":
            return silu(gate).mul_(up)
        if self._activation == "gelu_tanh":
            return gelu(gate, approximate="tanh").mul_(up)
        gate.clamp_(max=_CLAMP)
        up.clamp_(-_CLAMP, _CLAMP).add_(1.0)
        shares = torch.empty(gate.shape[0], 2 * self._inner)[:, : self._inner]
        torch.mul(gate, _SLOPE, out=shares)
        return torch.sigmoid(shares).mul_(gate).mul_(up)


class Mixture:
    """Each row goes through the experts that the router ranks highest for it.

    A row's parts meet in ascending order of the experts, whoever else is in the tile, and every
    product has the tile's shape.
    """

    __slots__ = ("_experts", "_normalise", "_router", "_used")

    def __init__(
        self, experts: Experts, activation: Activation, weights: Weights, prefix: str
    ) -> None:
        self._used, self._normalise = experts.used, experts.normalise
        self._router = Linear(weights, (f"{prefix}.router",), bias=experts.bias)
        self._experts = [
            Dense(
                activation,
                weights,
                f"{prefix}.experts.{index}",
                experts.intermediate_size,
                bias=experts.bias,
            )
            for index in range(experts.count)
        ]

    @property
    def linears(self) -> list[Linear]:
        """All matrices."""
        return [self._router, *(one for expert in self._experts for one in expert.linears)]

    def run(self, x: torch.Tensor, rows: int) -> torch.Tensor:
        """x [R, d] -> [R, d]; padding gets zeros."""
        logits = self._router(x)[:rows]
        ranked = logits.sort(dim=1, descending=True, stable=True)  # equal ones: the lowest first
        chosen = ranked.indices[:, : self._used]
        if self._normalise:
            shares = ranked.values[:, : self._used].softmax(dim=1)
        else:
            shares = logits.softmax(dim=1).gather(1, chosen)
        result = torch.zeros_like(x)
        for index in sorted(set(chosen.flatten().tolist())):
            row, place = torch.where(chosen == index)
            found = self._experts[index].run(x, rows)
            result[row] += found[row] * shares[row, place].unsqueeze(1)
        return result
