"""Muon for the matrices of the blocks, AdamW for everything else; their state in checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

_BETAS = (0.9, 0.95)


@dataclass(frozen=True, slots=True)
class LearningPace:
    """How fast at most.

    Attributes:
        adam: of AdamW.
        muon: of Muon; None: AdamW learns the blocks too.
        decay: of the matrices of the blocks; without Muon of all matrices.
    """

    adam: float
    muon: float | None = None
    decay: float = 0.0


class Optimisers:
    """Both, as one.

    Muon (Jordan and others, 2024) brings each step of a matrix to singular values of about 1; the
    embedding, which is looked up and not multiplied with, does better with AdamW.

    Args:
        model: whose parameters.
        pace: how fast.
    """

    def __init__(self, model: nn.Module, pace: LearningPace) -> None:
        self._named = dict(model.named_parameters())
        blocks = [one for name, one in self._named.items() if _is_of_block(name, one)]
        vectors = [one for one in self._named.values() if one.dim() < 2]
        known = {id(one) for one in [*blocks, *vectors]}
        matrices = [one for one in self._named.values() if id(one) not in known]
        self._all: list[tuple[torch.optim.Optimizer, float]] = []
        if pace.muon is None:
            matrices += blocks
        else:
            muon = torch.optim.Muon(
                blocks, lr=pace.muon, weight_decay=pace.decay, adjust_lr_fn="original"
            )
            self._all.append((muon, pace.muon))
        groups = [
            {"params": matrices, "weight_decay": pace.decay if pace.muon is None else 0.0},
            {"params": vectors, "weight_decay": 0.0},
        ]
        groups = [group for group in groups if group["params"]]
        self._all.append((torch.optim.AdamW(groups, lr=pace.adam, betas=_BETAS), pace.adam))

    def step(self, factor: float) -> None:
        """One step at `factor` of the pace; gradients are gone afterwards."""
        for optimiser, rate in self._all:
            for group in optimiser.param_groups:
                group["lr"] = rate * factor
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)

    def tensors(self) -> dict[str, Tensor]:
        """Weights, and state as "NAME of the state:NAME of the weight", copied to the CPU."""
        found = {name: one.detach().to("cpu", copy=True) for name, one in self._named.items()}
        for name, one in self._named.items():
            for optimiser, _ in self._all:
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
                device = "cpu" if state == "step" else one.device
                self._that_learns(one).state[one][state] = value.to(device, copy=True)

    def _that_learns(self, parameter: Tensor) -> torch.optim.Optimizer:
        for optimiser, _ in self._all:
            for group in optimiser.param_groups:
                if any(one is parameter for one in group["params"]):
                    return optimiser
        raise ValueError("nothing learns this")


def _is_of_block(name: str, parameter: Tensor) -> bool:
    return parameter.dim() == 2 and (".layers." in name or name.startswith("fusion."))
