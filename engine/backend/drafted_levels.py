"""A tree that a device has drafted level by level, as the host reads it.

Every level expands `width` nodes of the one before, level 0 the root alone, and gives each `width`
children, likeliest first: child j of row r on level l is number (l * width + r) * width + j.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.backend.round import Drafted
from engine.backend.tree import TokenTree

DRAFT_LEVELS = 16
"""Most levels that a device drafts in one call."""


def read_levels(
    root: int,
    tokens: NDArray[Any],
    scores: NDArray[np.float32],
    expanded: NDArray[Any],
    most: int,
) -> Drafted:
    """Return the tree of the `most` best nodes, and the staged ones.

    Args:
        root: token of the root.
        tokens: [levels * width * width], of all nodes.
        scores: as many; -inf for what is no node. A child's is at most its parent's.
        expanded: [levels, width], by level the numbers of the nodes that went on, whose keys
            the cache has in this order; negative from the first on that is none.
        most: most drafted nodes of the tree.
    """
    width = expanded.shape[1]
    order = np.argsort(-scores, kind="stable")[: max(most, 0)]
    order = order[scores[order] > -np.inf]
    above = np.concatenate([[-1], expanded.reshape(-1)])  # by number // width: the parent's number
    parents_of = above[np.maximum(order // width - width + 1, 0)]
    place, parents = {-1: 0}, [-1]
    for node, parent in zip(order.tolist(), parents_of.tolist(), strict=True):
        place[node] = len(parents)
        parents.append(place[parent])
    tree = TokenTree(
        (root, *tokens[order].tolist()), tuple(parents), (0.0, *scores[order].tolist())
    )
    staged = expanded.reshape(-1)
    missing = np.flatnonzero(staged < 0)
    staged = staged[: missing[0]] if len(missing) else staged
    behind = np.maximum(staged // width - width, -1)
    return Drafted(tree, tokens[staged].tolist(), behind.tolist())
