"""A small model's embedding begins as the target's, seen along its main directions.

Which tokens are alike is most of what a draft of few weights has to learn; the target knows it.
"""

from __future__ import annotations

import torch
from torch import Tensor

_ROWS = 32_768
"""Rows that the directions are computed from; evenly spread over larger vocabularies."""


@torch.no_grad()
def projected(embedding: Tensor, width: int) -> Tensor:
    """Fewer numbers for every token, tokens that were alike staying so.

    Args:
        embedding: [vocab, hidden].
        width: at most `hidden`; numbers beyond that are small noise.

    Returns:
        fp32 [vocab, width], scaled so that logits of a normed state begin with a spread of 1.
    """
    some = embedding[:: -(-len(embedding) // _ROWS)].float()
    _, directions = torch.linalg.eigh(some.t() @ some)  # the weakest come first
    kept = min(width, embedding.shape[1])
    found: Tensor = embedding.float() @ directions[:, -kept:]
    found *= width**-0.5 / found.square().mean().sqrt().clamp(min=1e-12)
    if kept == width:
        return found
    noise = torch.randn(len(found), width - kept, device=found.device)
    return torch.cat((found, 0.02 * noise), 1)
