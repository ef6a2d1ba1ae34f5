"""How a feature head begins on torch's operators: its target's features join the next token."""

from __future__ import annotations

from typing import Protocol

import torch
from torch.nn.functional import silu

from engine.backend.torch_cpu.linear import Linear, rms_norm, vector
from engine.model.config import Fusion, ModelConfig
from engine.model.weights.readable import Weights

Entered = tuple[torch.Tensor, torch.Tensor | None]
"""What block 0 adds to, [R, d], and what its attention sees where that is something else."""


class Fuser(Protocol):
    """One kind of fusion, on a tile of rows."""

    @property
    def linears(self) -> list[Linear]:
        """All matrices."""
        ...

    def enter(self, embedded: torch.Tensor, features: torch.Tensor, *, own: bool) -> Entered:
        """Embeddings [R, d] and features [R, width], or a head's own ones [R, d]."""
        ...


def fuser(config: ModelConfig, fusion: Fusion, weights: Weights) -> Fuser:
    """The fusion of a head."""
    if fusion.kind == "dgf":
        return Gated(config, weights)
    return Joined(fusion, weights) if fusion.kind == "linear" else Tapped(config, fusion, weights)


class Gated:
    """Dovetail's dynamic gating fusion."""

    def __init__(self, config: ModelConfig, weights: Weights) -> None:
        self._eps, self._hidden = config.rms_norm_eps, config.hidden_size
        self._norm = vector(weights, "fusion.norm.weight")
        self._feature = Linear(weights, ("fusion.feature",), bias=False)
        self._token = Linear(weights, ("fusion.token",), bias=False)
        self._gate = Linear(weights, ("fusion.gate",), bias=False)
        self.linears = [self._feature, self._token, self._gate]

    def enter(self, embedded: torch.Tensor, features: torch.Tensor, *, own: bool) -> Entered:
        """z * a + (1 - z) * b of the two paths."""
        del own
        # Slices of the padded rows keep a row's vector tail its own, not the tile's.
        both = torch.empty(embedded.shape[0], 2 * self._hidden)
        a, b = both[:, : self._hidden], both[:, self._hidden :]
        a.copy_(self._feature(features))
        b.copy_(self._token(rms_norm(embedded, self._norm, self._eps)))
        b.copy_(silu(b))
        z = torch.sigmoid(self._gate(both))
        return z * a + (1 - z) * b, None


class Joined:
    """EAGLE-1 and 2: one map of embedding and feature."""

    def __init__(self, fusion: Fusion, weights: Weights) -> None:
        self._map = Linear(weights, ("fusion.linear",), bias=fusion.bias)
        self.linears = [self._map]

    def enter(self, embedded: torch.Tensor, features: torch.Tensor, *, own: bool) -> Entered:
        """The map of both."""
        del own
        return self._map(torch.cat((embedded, features), dim=1)), None


class Tapped:
    """EAGLE-3: several taps of the target; the first block's attention sees the embedding, too."""

    def __init__(self, config: ModelConfig, fusion: Fusion, weights: Weights) -> None:
        self._eps, self._residual_normed = config.rms_norm_eps, fusion.residual_normed
        self._map = Linear(weights, ("fusion.features",), bias=False)
        self._of_embedding = vector(weights, "model.layers.0.input_layernorm.weight")
        self._of_features = vector(weights, "model.layers.0.hidden_norm.weight")
        self.linears = [self._map]

    def enter(self, embedded: torch.Tensor, features: torch.Tensor, *, own: bool) -> Entered:
        """The mapped features, and both norms side by side."""
        x = features if own else self._map(features)
        normed = rms_norm(x, self._of_features, self._eps)
        seen = torch.cat((rms_norm(embedded, self._of_embedding, self._eps), normed), dim=1)
        return normed if self._residual_normed else x, seen
