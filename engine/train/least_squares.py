"""First weights of EAGLE's linear fusion: what least squares say of the next feature.

A map from a token's feature and the next token's embedding to the next feature needs no gradients.
With it a head drafts before it has learned anything else, and of few tokens it is most of what
there is to learn: with 17,000 of a model of 1.5 billion weights, a third of what it writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.train.batches import Batch
from engine.train.modules import DraftModule

_PRIOR = 300.0
"""Tokens that say that the feature depends on nothing: the ridge, with all columns of one size."""
_LEAST = 1e-3


@torch.no_grad()
def fit_linear_fusion(
    draft: DraftModule, batches: Iterable[Batch], embedding: Tensor, most: int = 400_000
) -> None:
    """Set a head's linear fusion by ridge regression, and let its blocks begin without effect.

    Args:
        draft: a head with linear fusion, on the CPU.
        batches: of its recording; with the first `most` tokens of them.
        embedding: the target's, [vocab, hidden].
        most: tokens after which no more are read.
    """
    linear = cast("nn.Linear", draft.fusion.linear)
    columns = linear.in_features + 1
    device = embedding.device
    squares = torch.zeros(columns, columns, device=device)
    products = torch.zeros(columns, linear.out_features, device=device)
    seen = 0
    for batch in batches:
        known, wanted = _pairs(batch.to(device), embedding)
        squares += known.t() @ known
        products += known.t() @ wanted
        seen += batch.count
        if seen >= most or not batch.next.batch:  # an epoch holds no more
            break
    size = squares.diagonal().div(max(seen, 1)).sqrt().clamp(min=_LEAST)
    size[-1] = 1.0
    scaled = squares / size / size[:, None]
    scaled.diagonal()[:-1] += _PRIOR
    found = torch.linalg.solve(scaled, products / size[:, None]) / size[:, None]
    linear.weight.copy_(found[:-1].t())
    if linear.bias is not None:
        linear.bias.copy_(found[-1])
    for name, parameter in draft.named_parameters():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            parameter.zero_()


def _pairs(batch: Batch, embedding: Tensor) -> tuple[Tensor, Tensor]:
    """Return what the fusion takes of all pairs, with a 1 behind it, and the features that follow.

    The last state of a sequence may be missing: nothing is learned from it.
    """
    ends = torch.arange(batch.tokens.shape[1] - 2, device=batch.tokens.device)
    inside = ends < batch.lengths[:, None] - 2
    embedded = functional.embedding(batch.tokens[:, 1:-1][inside], embedding).float()
    features = batch.features[:, :-2][inside].float()
    ones = torch.ones(len(features), 1, device=features.device)
    return torch.cat((embedded, features, ones), 1), batch.hidden[:, 1:-1][inside].float()
