"""Feed-forwards: dense ones, and how rows choose among experts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch.nn.functional import gelu, silu

from engine.backend.torch_layers.layers import LayerWeights, Projection
from engine.model.config import Activation, Experts, ModelConfig

_CLAMP = 7.0
_SLOPE = 1.702


class FeedForward(Protocol):
    """The part of a block that treats each row on its own."""

    def run(self, x: torch.Tensor, rows: int) -> torch.Tensor:
        """x [n, d], of which at most `rows` are valid -> [n, d]; the others get anything finite."""
        ...


def feed_forward(
    config: ModelConfig,
    weights: LayerWeights,
    index: int,
    mixture: Callable[[Experts, str], FeedForward],
) -> FeedForward:
    """Return the feed-forward of a block.

    Args:
        config: of the model.
        weights: of the model.
        index: the block.
        mixture: makes a choice of experts, given the prefix of its tensors' names.
    """
    prefix = f"model.layers.{index}.mlp"
    experts = config.blocks[index].experts
    if experts is not None:
        return mixture(experts, prefix)
    layers = [f"{prefix}.gate_proj", f"{prefix}.up_proj"]
    gate_up = weights.linear(layers, bias=config.mlp_bias)
    down = weights.linear([f"{prefix}.down_proj"], bias=config.mlp_bias)
    return Dense(config.activation, gate_up, down)


class Dense:
    """down(activation(gate(x)) * up(x))."""

    __slots__ = ("_activation", "_down", "_gate_up")

    def __init__(self, activation: Activation, gate_up: Projection, down: Projection) -> None:
        self._activation, self._gate_up, self._down = activation, gate_up, down

    def run(self, x: torch.Tensor, rows: int) -> torch.Tensor:
        """x [n, d] -> [n, d]."""
        del rows  # every product has the tile's shape
        gate_up = self._gate_up(x)
        inner = gate_up.shape[1] // 2
        # Slices keep the rows apart, so that on the CPU a row's vector tail is its own.
        gated = _gated(self._activation, gate_up[:, :inner], gate_up[:, inner:])
        return self._down(gated, large=True)


def choose_experts(logits: torch.Tensor, experts: Experts) -> tuple[torch.Tensor, torch.Tensor]:
    """Experts of each row and their shares, both [n, used], the best first.

    Args:
        logits: the router's, fp32 [n, experts]; of equal ones the lowest expert comes first.
        experts: how many are used, and whether their shares are a softmax over them alone.
    """
    ranked = logits.sort(dim=1, descending=True, stable=True)
    chosen = ranked.indices[:, : experts.used]
    if experts.normalise:
        return chosen, ranked.values[:, : experts.used].softmax(dim=1)
    return chosen, logits.softmax(dim=1).gather(1, chosen)


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
