"""Muon for the matrices of the blocks, AdamW for everything else; their state in checkpoints."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from engine.train.settings import Schedule

_BETAS = (0.9, 0.95)


class Optimisers:
    """Muon and AdamW, used as one optimiser.

    Muon (Jordan and others, 2024) brings each step of a matrix to singular values of about 1; the
    embedding, which is looked up and not multiplied with, does better with AdamW.

    Args:
        model: whose parameters.
        schedule: its rates and weight decay.
    """

    def __init__(self, model: nn.Module, schedule: Schedule) -> None:
        self._named = dict(model.named_parameters())
        blocks, matrices, vectors = list[Tensor](), list[Tensor](), list[Tensor]()
        for name, one in self._named.items():
            if one.dim() < 2:
                vectors.append(one)
            elif schedule.muon and one.dim() == 2 and _is_of_block(name):
                blocks.append(one)
            else:
                matrices.append(one)
        self._rates: list[tuple[torch.optim.Optimizer, float]] = []
        if blocks:
            muon = torch.optim.Muon(
                blocks, lr=schedule.muon, weight_decay=schedule.decay, adjust_lr_fn="original"
            )
            self._rates.append((muon, schedule.muon))
        groups = [
            {"params": matrices, "weight_decay": 0.0 if schedule.muon else schedule.decay},
            {"params": vectors, "weight_decay": 0.0},
        ]
        groups = [group for group in groups if group["params"]]
        adam = torch.optim.AdamW(groups, lr=schedule.rate, betas=_BETAS)
        self._rates.append((adam, schedule.rate))
        self._of = {
            one: optimiser
            for optimiser, _ in self._rates
            for group in optimiser.param_groups
            for one in group["params"]
        }

    def step(self, factor: float) -> None:
        """Make one step at `factor` of the rates, and delete the gradients."""
        for optimiser, rate in self._rates:
            for group in optimiser.param_groups:
                group["lr"] = rate * factor
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)

    def tensors(self) -> dict[str, Tensor]:
        """Copy weights, and states as "NAME of the state:NAME of the weight", to the CPU."""
        found = dict[str, Tensor](self._named)
        for name, one in self._named.items():
            for key, value in self._of[one].state.get(one, {}).items():
                if isinstance(value, Tensor):
                    found[f"{key}:{name}"] = value
        return {name: one.detach().to("cpu", copy=True).contiguous() for name, one in found.items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Copy back what `tensors` gave.

        Raises:
            ValueError: it was of other weights.
        """
        for name, one in self._named.items():
            kept = tensors.get(name)
            if kept is None or kept.shape != one.shape:
                raise ValueError(name)
            with torch.no_grad():
                one.copy_(kept)
        for key, value in tensors.items():
            state, _, name = key.partition(":")
            if name:
                one = self._named[name]
                device = "cpu" if state == "step" else one.device
                self._of[one].state[one][state] = value.to(device, copy=True)


def _is_of_block(name: str) -> bool:
    return ".layers." in name or name.startswith("fusion.")
