"""Feed-forwards on a device: dense, or a choice of experts that the host never learns of."""

from __future__ import annotations

from typing import Protocol

import torch
from torch.nn.functional import gelu, silu

from engine.backend.accelerator.linear import Linear
from engine.backend.accelerator.loading import Loader
from engine.backend.accelerator.sizes import TILE_ROWS
from engine.model.config import Activation, Experts, ModelConfig

_CLAMP = 7.0
_SLOPE = 1.702


class FeedForward(Protocol):
    """What a block does to each row on its own."""

    def run(self, x: torch.Tensor, rows: int) -> torch.Tensor:
        """x [n, d], of which at most `rows` are valid -> [n, d]."""
        ...


def feed_forward(config: ModelConfig, loader: Loader, index: int) -> FeedForward:
    """The feed-forward of a block."""
    prefix = f"model.layers.{index}.mlp"
    experts = config.blocks[index].experts
    if experts is not None:
        return Mixture(experts, config.activation, loader, prefix)
    layers = [f"{prefix}.gate_proj", f"{prefix}.up_proj"]
    gate_up = loader.linear(layers, bias=config.mlp_bias)
    down = loader.linear([f"{prefix}.down_proj"], bias=config.mlp_bias)
    return Dense(config.activation, gate_up, down)


class Dense:
    """down(activation(gate(x)) * up(x))."""

    __slots__ = ("_activation", "_down", "_gate_up")

    def __init__(self, activation: Activation, gate_up: Linear, down: Linear) -> None:
        self._activation, self._gate_up, self._down = activation, gate_up, down

    def run(self, x: torch.Tensor, rows: int) -> torch.Tensor:
        """x [n, d] -> [n, d]."""
        del rows
        gate_up = self._gate_up(x)
        inner = gate_up.shape[1] // 2
        # Slices keep the rows apart, so that on the CPU a row's vector tail is its own.
        gated = _gated(self._activation, gate_up[:, :inner], gate_up[:, inner:])
        return self._down(gated, large=True)


def _gated(activation: Activation, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    if activation == "silu":
        return silu(gate).mul_(up)
    if activation == "gelu_tanh":
        return gelu(gate, approximate="tanh").mul_(up)
    gate.clamp_(max=_CLAMP)
    up.clamp_(-_CLAMP, _CLAMP).add_(1.0)
    shares = torch.empty(len(gate), 2 * gate.shape[1], device=gate.device)[:, : gate.shape[1]]
    torch.mul(gate, _SLOPE, out=shares)
    return torch.sigmoid(shares).mul_(gate).mul_(up)


class Mixture:
    """Each row goes through the experts that the router ranks highest for it.

    A few rows fetch their experts by an index that stays on the device; more rows than that go
    through all experts. Either way an expert's product is of 16 rows, and a row's parts meet in
    ascending order of the experts.
    """

    __slots__ = ("_activation", "_count", "_down", "_gate_up", "_normalise", "_router", "_used")

    def __init__(
        self, experts: Experts, activation: Activation, loader: Loader, prefix: str
    ) -> None:
        self._activation = activation
        self._count, self._used, self._normalise = experts.count, experts.used, experts.normalise
        self._router = loader.router(f"{prefix}.router", bias=experts.bias)
        each = [f"{prefix}.experts.{index}" for index in range(experts.count)]
        gate_up = [[f"{expert}.gate_proj", f"{expert}.up_proj"] for expert in each]
        self._gate_up = loader.experts(gate_up, bias=experts.bias)
        self._down = loader.experts([[f"{expert}.down_proj"] for expert in each], bias=experts.bias)

    def run(self, x: torch.Tensor, rows: int) -> torch.Tensor:
        """x [n, d] -> [n, d]; rows that are not valid get something or zeros."""
        chosen, shares = self._choices(x)
        if rows * self._used < self._count:
            return self._fetched(x, rows, chosen, shares)
        return self._all(x, chosen, shares)

    def _choices(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Experts of each row, ascending, and their shares, [n, used]."""
        logits = self._router(x, exact=True)
        ranked = logits.sort(dim=1, descending=True, stable=True)  # equal ones: the lowest first
        chosen = ranked.indices[:, : self._used]
        if self._normalise:
            shares = ranked.values[:, : self._used].softmax(dim=1)
        else:
            shares = logits.softmax(dim=1).gather(1, chosen)
        ascending = chosen.sort(dim=1)
        return ascending.values, shares.gather(1, ascending.indices)

    def _fetched(
        self, x: torch.Tensor, rows: int, chosen: torch.Tensor, shares: torch.Tensor
    ) -> torch.Tensor:
        result = torch.zeros_like(x)
        for row in range(rows):
            first = row // TILE_ROWS * TILE_ROWS
            company = x[first : first + TILE_ROWS]
            for place in range(self._used):
                expert = chosen[row, place : place + 1]
                gate_up, down = self._gate_up.chosen(expert), self._down.chosen(expert)
                found = Dense(self._activation, gate_up, down).run(company, rows)
                result[row] += found[row - first] * shares[row, place]
        return result

    def _all(self, x: torch.Tensor, chosen: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
        result = torch.zeros_like(x)
        for index in range(self._count):
            gate_up, down = self._gate_up.numbered(index), self._down.numbered(index)
            found = Dense(self._activation, gate_up, down).run(x, len(x))
            here = chosen == index
            share = (shares * here).sum(dim=1, keepdim=True)
            result += torch.where(here.any(dim=1, keepdim=True), found * share, 0.0)
        return result
