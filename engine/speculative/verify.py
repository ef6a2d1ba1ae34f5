"""Sample-then-match: exact verification of any tree under any sampler.

At each node the target draws its own token; if that token is among the node's children the walk
descends, else it stops. Every committed token is thus the target's own draw, and the draft decides
only how many of them one forward gives (shown equivalent to residual rejection for deterministic
drafts: Dovetail section on verification; SpecExec).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from engine.backend.round import Verified, VerifyRequest
from engine.backend.tree import TokenTree
from engine.model.weights.readable import Floats
from engine.speculative.sampler import Sampler


def verify(
    tree: TokenTree,
    logits: Floats,
    sampler: Sampler,
    tokens: Sequence[int],
    *,
    limit: int,
    stop_ids: Collection[int] = (),
) -> Verified:
    """Walk the tree with the target's own draws.

    Args:
        tree: the tree the target has just processed.
        logits: fp32 [nodes, vocab], the target's at every node.
        sampler: draws the target's tokens.
        tokens: committed tokens, the root last.
        limit: most tokens to commit, >= 1.
        stop_ids: tokens after which the answer ends.
    """
    if (native := sampler.native(logits.shape[1])) is not None:
        request = VerifyRequest(tree.tokens, tree.parents, tokens, limit, stop_ids)
        return native.verify(request, logits)
    below = tree.children()
    path: list[int] = [0]
    drawn: list[int] = []
    chances: list[float] = []
    refused: float | None = None
    accepted = offered = node = 0
    while True:
        token = sampler.draw(logits[node], tokens, drawn)
        drawn.append(token)
        child = below[node].get(token)
        first = next(iter(below[node]), None) if child is None else None
        chance, refused = _chances(logits[node], token, first)
        chances.append(chance)
        offered += bool(below[node])
        accepted += child is not None
        if child is None or token in stop_ids or len(drawn) >= limit:
            break
        path.append(child)
        node = child
    return Verified(
        tuple(path), tuple(drawn), accepted, offered, chances=tuple(chances), refused=refused
    )


def _chances(logits: Floats, token: int, other: int | None) -> tuple[float, float | None]:
    """Return the probabilities of two tokens by the logits."""
    weights = np.exp(logits.astype(np.float64) - logits.max())
    mass = weights.sum()
    known = other is not None and 0 <= other < len(weights)
    return float(weights[token] / mass), float(weights[other] / mass) if known else None
