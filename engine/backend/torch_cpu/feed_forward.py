"""A mixture of experts on the CPU: only the chosen ones compute."""

from __future__ import annotations

import torch

from engine.backend.torch_cpu.linear import FloatWeights
from engine.backend.torch_layers.feed_forward import Dense, choose_experts
from engine.model.config import Activation, Experts


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
