"""The fusion of a feature head: the target's features join the next token's embedding.

The equations stand at `engine.model.config.Fusion`. Features are hidden states of another model,
whose magnitude has no known bound, so every product here treats them as large.
"""

from __future__ import annotations

import torch
from torch.nn.functional import silu

from engine.backend.torch_layers.layers import LayerWeights, Projection, rms_norm
from engine.model.config import Fusion, FusionKind, ModelConfig

_MATRICES: dict[FusionKind, tuple[str, ...]] = {
    "dgf": ("feature", "token", "gate"),
    "linear": ("linear",),
    "eagle3": ("features",),
}


class Fuser:
    """Weights and arithmetic of a head's fusion."""

    def __init__(self, config: ModelConfig, fusion: Fusion, weights: LayerWeights) -> None:
        self._fusion, self._eps = fusion, config.rms_norm_eps
        self._matrices: list[Projection] = [
            weights.linear([f"fusion.{name}"], bias=fusion.bias and name == "linear")
            for name in _MATRICES[fusion.kind]
        ]
        self._norms: list[torch.Tensor] = []
        if fusion.kind == "dgf":
            self._norms = [weights.vector("fusion.norm.weight")]
        elif fusion.kind == "eagle3":
            names = ("input_layernorm", "hidden_norm")
            self._norms = [weights.vector(f"model.layers.0.{name}.weight") for name in names]

    def begin(
        self, embedded: torch.Tensor, features: torch.Tensor, *, own: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the first block's residual input, fp32 [n, d], and what its attention sees.

        Args:
            embedded: the tokens, fp32 [n, d].
            features: the target's, fp32 [n, width], or what the head itself has put out, [n, d].
            own: which of the two.
        """
        if self._fusion.kind == "dgf":
            x = self._gated(embedded, features)
        elif self._fusion.kind == "linear":
            (joined,) = self._matrices
            x = joined(torch.cat((embedded, features), dim=1), large=True)
        else:
            return self._beside(embedded, features, own=own)
        return x, x

    def _gated(self, embedded: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        """z * a + (1 - z) * b."""
        feature, token, gate = self._matrices
        hidden = embedded.shape[1]
        # Slices keep the rows apart, so that on the CPU a row's vector tail is its own.
        both = torch.empty(len(embedded), 2 * hidden, device=embedded.device)
        a, b = both[:, :hidden], both[:, hidden:]
        a.copy_(feature(features, large=True))
        b.copy_(token(rms_norm(embedded, self._norms[0], self._eps)))
        silu(b, inplace=True)
        z = gate(both, large=True).sigmoid_()
        return b.add_(a.sub_(b).mul_(z))

    def _beside(
        self, embedded: torch.Tensor, features: torch.Tensor, *, own: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        (together,) = self._matrices
        x = features.clone() if own else together(features, large=True)
        of_token, of_feature = self._norms
        normed = rms_norm(x, of_feature, self._eps)
        seen = torch.cat((rms_norm(embedded, of_token, self._eps), normed), dim=1)
        return normed if self._fusion.residual_normed else x, seen
