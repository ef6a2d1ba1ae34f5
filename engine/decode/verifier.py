"""Sample-then-match: exact verification of any tree under any sampler.

At each node the target draws its own token; if that token is among the node's children the walk
descends, else it stops. Every committed token is thus the target's own draw, and the draft decides
only how many of them one forward gives (shown equivalent to residual rejection for deterministic
drafts: Dovetail section on verification; SpecExec).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from engine.backend.segment import Floats, Walk
from engine.decode.sampler import Sampler
from engine.decode.tree import TokenTree


@dataclass(frozen=True, slots=True)
class Verified:
    """The outcome of verifying one tree.

    Attributes:
        path: nodes whose keys stay: the root and every node the walk descended to.
        tokens: the target's draws, at least one; the last one is the next root.
        accepted: how many of them were drafted.
        offered_by_depth: 1 for every depth at which a node was on offer, 0 for the one where none.
        accepted_by_depth: 1 where the target's draw was among the offered nodes.
    """

    path: tuple[int, ...]
    tokens: tuple[int, ...]
    accepted: int
    offered_by_depth: tuple[int, ...]
    accepted_by_depth: tuple[int, ...]

    @classmethod
    def of(cls, walk: Walk) -> Verified:
        """What a backend's walk comes to."""
        accepted = (1,) * walk.accepted + (0,) * (walk.offered - walk.accepted)
        return cls(walk.path, walk.drawn, walk.accepted, (1,) * walk.offered, accepted)


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
        walk = native.verify(
            tree.tokens, tree.parents, logits, tokens, limit=limit, stop_ids=stop_ids
        )
        return Verified.of(walk)
    below = tree.children()
    path: list[int] = [0]
    drawn: list[int] = []
    offered: list[int] = []
    accepted: list[int] = []
    node = 0
    while True:
        token = sampler.draw(logits[node], tokens, drawn)
        drawn.append(token)
        child = below[node].get(token)
        if below[node]:
            offered.append(1)
            accepted.append(int(child is not None))
        if child is None or token in stop_ids or len(drawn) >= limit:
            break
        path.append(child)
        node = child
    return Verified(tuple(path), tuple(drawn), sum(accepted), tuple(offered), tuple(accepted))
