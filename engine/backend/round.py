"""The parts of a round, which loops, drafters, models and devices exchange."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from math import exp

import numpy as np
from numpy.typing import NDArray

from engine.backend.native.pool import CancelFlag
from engine.backend.tree import TokenTree
from engine.events import Interval, hull
from engine.model.weights.readable import Floats


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits on drafting in one round.

    Attributes:
        nodes: most drafted nodes.
        depth: most tokens along a path.
        width: most nodes expanded per level, and most children per node.
        floor: a level whose paths are accepted with a probability below this is not worth its
            time, and drafting stops above it.
    """

    nodes: int
    depth: int
    width: int
    floor: float = 0.0


@dataclass(frozen=True, slots=True)
class Ranking:
    """Order of a draft's candidates: by its probabilities, or as the target would draw from them.

    Attributes:
        temperature: that of the target's sampler; 0 is greedy.
        seed: seed of its noise.
        share_noise: whether the noise of its draws is added, where it draws at all.
        shift: tokens of the sequence before the first that the draft has read: its positions count
            from there, those of the noise from the beginning.
    """

    temperature: float
    seed: int
    share_noise: bool
    shift: int = 0


@dataclass(frozen=True, slots=True)
class DraftRequest:
    """A request for a draft: a tree behind tokens that it has not processed.

    Attributes:
        pending: committed tokens behind those that it has, at least one; the last is the root.
        ranking: how candidates rank.
        budget: how far the tree may grow.
        features: for a feature head: the target's of the token before each pending one, fp32
            [pending, fusion.width]; deeper down the outputs of a node's parent take their place.
            The head's first token is the sequence's second, so that what it drafts first stands one
            position later.
    """

    pending: Sequence[int]
    ranking: Ranking
    budget: Budget
    features: Floats | None = None


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """A tree to verify, and how far the target may draw down it.

    Attributes:
        nodes: token of each node, the root's first; it is the last of `tokens`.
        parents: index of each node's parent, which comes before it; -1 for the root.
        tokens: committed tokens, the root included.
        limit: most tokens to draw.
        stop_ids: tokens that nothing follows.
        cancel: gives the verification up once it is set, where the device looks at it.
    """

    nodes: Sequence[int]
    parents: Sequence[int]
    tokens: Sequence[int]
    limit: int
    stop_ids: Collection[int] = ()
    cancel: CancelFlag | None = None


Allowed = Callable[[Sequence[int], Sequence[int]], NDArray[np.uint32]]
"""Which tokens may follow committed ones and a path below them: a bit each, the lowest first."""

Candidates = Sequence[tuple[int, float]]
"""Tokens that may follow a node with the logs of their chances, the best first."""


@dataclass(frozen=True, slots=True)
class Expanded:
    """Nodes expanded in one forward.

    Attributes:
        candidates: of each row that they were wanted of.
        outputs: fp32 [n, hidden], of all rows: what a feature head drafts on from. Valid until the
            decoder's next forward.
    """

    candidates: list[Candidates]
    outputs: Floats


@dataclass(frozen=True, slots=True)
class Drafted:
    """A tree drafted in one call.

    Attributes:
        tree: what is proposed.
        staged_tokens: tokens of the nodes whose keys the cache now holds behind the committed ones.
        staged_parents: for each of them, the index of an earlier one or -1.
    """

    tree: TokenTree
    staged_tokens: list[int]
    staged_parents: list[int]


@dataclass(frozen=True, slots=True)
class Verified:
    """The outcome of verifying one tree.

    Attributes:
        path: nodes whose keys stay: the root and every node the walk descended to.
        tokens: the target's draws, at least one; the last one is the next root.
        accepted: how many of them were drafted.
        offered: at how many of the nodes where it drew there were drafted tokens to choose from.
        chances: what the target's logits give each of `tokens`, before penalties, filters and
            temperature; empty where they are not known.
        refused: the same of the first node that was on offer where none was drawn; None: no such.
        likeliest: at the place of each of `tokens`, the likeliest tokens and what the same logits
            give them; empty where nobody asked.
    """

    path: tuple[int, ...]
    tokens: tuple[int, ...]
    accepted: int
    offered: int
    chances: tuple[float, ...] = field(default=(), compare=False)
    refused: float | None = field(default=None, compare=False)
    likeliest: tuple[tuple[tuple[int, float], ...], ...] = field(default=(), compare=False)

    @property
    def offered_by_depth(self) -> tuple[int, ...]:
        """1 for every depth at which a node was on offer."""
        return (1,) * self.offered

    @property
    def accepted_by_depth(self) -> tuple[int, ...]:
        """1 for each of these depths where the target drew one of the nodes, else 0."""
        return (1,) * self.accepted + (0,) * (self.offered - self.accepted)


@dataclass(frozen=True, slots=True)
class Round:
    """A tree that was verified, and when.

    Attributes:
        tree: what was verified, the root alone in a plain round.
        verified: the outcome.
        verify: when the target verified it.
        drafting: when the draft worked for it, in order.
        useful: seconds of drafting of which something has been committed.
        wasted: seconds of drafting of which nothing will be.
    """

    tree: TokenTree
    verified: Verified
    verify: Interval
    drafting: tuple[Interval, ...] = ()
    useful: float = 0.0
    wasted: float = 0.0

    @property
    def tokens(self) -> tuple[int, ...]:
        """Tokens that it committed, at least one."""
        return self.verified.tokens

    @property
    def accepted(self) -> int:
        """Length of the drafted prefix of `tokens`."""
        return self.verified.accepted

    @property
    def drafted(self) -> int:
        """Drafted nodes that were verified."""
        return self.tree.drafted

    @property
    def draft(self) -> Interval | None:
        """Interval from the first drafting to the last."""
        return hull(self.drafting)

    @property
    def rejected(self) -> tuple[int, ...]:
        """The likeliest drafted tokens in the place of the last committed one."""
        verified = self.verified
        if verified.offered == verified.accepted:
            return ()
        return self.tree.likeliest_below(verified.path[-1])

    @property
    def guesses(self) -> tuple[float | None, ...]:
        """The draft model's prob of each accepted token, and of the first of `rejected`.

        None of tokens that no model has drafted.
        """
        tree, verified = self.tree, self.verified
        nodes = list(verified.path[1:])
        if len(nodes) < verified.offered:  # the last has no keys to stay: it was refused, or ended
            accepted = verified.accepted == verified.offered
            last = tree.child(verified.path[-1], verified.tokens[-1] if accepted else None)
            nodes += [] if last is None else [last]
        weights = [tree.weight(node) for node in nodes]
        return tuple([None if weight is None else exp(min(weight, 0.0)) for weight in weights])
