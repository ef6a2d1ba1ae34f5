"""A tree's verification where the device has drawn the likeliest tokens: only these come back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.backend.round import Verified, VerifyRequest
from engine.errors import InvalidLogits

NONE = -1
"""Asked for where a node has no child."""


def first_children(request: VerifyRequest) -> list[int]:
    """Return the token of each node's first child, NONE where it has none."""
    tokens = [NONE] * len(request.nodes)
    for node in range(len(request.nodes) - 1, 0, -1):
        tokens[request.parents[node]] = request.nodes[node]
    return tokens


def walked(request: VerifyRequest, drawn: NDArray[np.uint32]) -> Verified:
    """Walk a tree with the tokens that were drawn; see `engine.speculative.decoding.verify`.

    Args:
        request: the tree, and how far to draw.
        drawn: [nodes, 4], as draw.wgsl writes them.

    Raises:
        InvalidLogits: the logits at a node of the path are not finite.
    """
    below = [dict[int, int]() for _ in request.nodes]
    for node in range(1, len(request.nodes)):
        below[request.parents[node]].setdefault(request.nodes[node], node)
    chances = drawn[:, 1:3].copy().view(np.float32)
    node, path, tokens, found = 0, [0], list[int](), list[float]()
    accepted = offered = 0
    while True:
        if drawn[node, 3]:
            raise InvalidLogits("the model's output is not a number")
        token = int(drawn[node, 0])
        child = below[node].get(token)
        tokens.append(token)
        found.append(float(chances[node, 0]))
        offered += bool(below[node])
        accepted += child is not None
        if child is None or token in request.stop_ids or len(tokens) >= request.limit:
            break
        path.append(child)
        node = child
    refused = float(chances[node, 1]) if child is None and below[node] else None
    return Verified(
        tuple(path), tuple(tokens), accepted, offered, chances=tuple(found), refused=refused
    )
