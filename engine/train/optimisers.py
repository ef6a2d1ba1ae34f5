"""Muon for the matrices of the blocks, AdamW for everything else; their state in checkpoints."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from engine.train.scratch.recipe import Rates

_BETAS = (0.9, 0.95)


class Optimisers:
    """Both, as one.

    Muon (Jordan and others, 2024) brings each step of a matrix to singular values of about 1; the
    embedding, which is looked up and not multiplied with, does better with AdamW.

    Args:
        model: whose parameters.
        rates: how fast.
    """

    def __init__(self, model: nn.Module, rates: Rates) -> None:
        self._rates = rates
        self._named = dict(model.named_parameters())
        matrices = {name: one for name, one in self._named.items() if _is_matrix(name, one)}
        others = {name: one for name, one in self._named.items() if name not in matrices}
        self._muon = torch.optim.Muon(
            list(matrices.values()),
            lr=rates.matrices,
            weight_decay=rates.weight_decay,
            adjust_lr_fn="original",
        )
        self._adam = torch.optim.AdamW(
            list(others.values()), lr=rates.others, betas=_BETAS, weight_decay=0.0
        )

    @property
    def both(self) -> tuple[torch.optim.Optimizer, torch.optim.Optimizer]:
        """Muon, AdamW."""
        return self._muon, self._adam

    def step(self, factor: float) -> None:
        """One step at `factor` of the rates; gradients are gone afterwards."""
        for optimiser, rate in zip(
            self.both, (self._rates.matrices, self._rates.others), strict=True
        ):
            for group in optimiser.param_groups:
                group["lr"] = rate * factor
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)

    def tensors(self) -> dict[str, Tensor]:
        """Weights, and state as "NAME of the state:NAME of the weight", copied to the CPU."""
        found = {name: one.detach().to("cpu", copy=True) for name, one in self._named.items()}
        for name, one in self._named.items():
            for optimiser in self.both:
                for key, value in optimiser.state.get(one, {}).items():
                    if isinstance(value, Tensor):
                        found[f"{key}:{name}"] = value.detach().to("cpu", copy=True)
        return {name: one.contiguous() for name, one in found.items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """The opposite of `tensors`.

        Raises:
            ValueError: other weights than these were kept.
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
                optimiser = self._muon if state == "momentum_buffer" else self._adam
                device = "cpu" if state == "step" else one.device
                optimiser.state[one][state] = value.to(device, copy=True)


def _is_matrix(name: str, parameter: Tensor) -> bool:
    return parameter.dim() == 2 and ".layers." in name
