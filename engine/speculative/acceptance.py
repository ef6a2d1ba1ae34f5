"""How much of what a draft proposes is accepted, and which of its nodes are worth verifying.

A second is worth the tokens that rounds bring in one; a node is verified where its probability of
acceptance is worth its time.
"""

from __future__ import annotations

from itertools import accumulate
from math import exp

from engine.backend.round import Round
from engine.backend.tree import TokenTree
from engine.speculative.costs import MeanByKind, Seconds

_LEAST_TRUST, _MOST_TRUST = 0.1, 3.0
_FORGET = 0.985


class Acceptance:
    """The share of a draft's proposals that is accepted, for each kind of text.

    Args:
        expected: acceptance of a drafted token that the plan expects.

    Attributes:
        goes_on: probability that the path goes on below an accepted node.
        promised: accepted tokens of the tree under verification by the draft's own probabilities.
    """

    __slots__ = ("_fulfilled", "_promised", "goes_on", "promised")

    def __init__(self, expected: float) -> None:
        self.goes_on = MeanByKind(expected, 6.0, _FORGET)
        self.promised = 0.0
        self._promised = MeanByKind(1.0, 6.0, _FORGET)
        self._fulfilled = MeanByKind(1.0, 6.0, _FORGET)

    @property
    def trust(self) -> float:
        """Ratio of what is accepted to what the draft's probabilities promise."""
        promised, fulfilled = max(self._promised.value, 1e-9), self._fulfilled.value
        return min(max(fulfilled / promised, _LEAST_TRUST), _MOST_TRUST)

    @property
    def tokens(self) -> float:
        """Tokens to expect of the round; they vary less from round to round than the outcome."""
        return 1 + self.trust * self.promised

    def observe(self, done: Round, deep: int | None = None) -> None:
        """Learn from a verified tree; `deep`: how far it is the draft's own, if not all of it."""
        for accepted in done.verified.accepted_by_depth[:deep]:
            self.goes_on.add(accepted)
        if done.drafted:
            self._promised.add(self.promised)
            self._fulfilled.add(sum(done.verified.accepted_by_depth[:deep]))

    @property
    def means(self) -> dict[str, MeanByKind]:
        """All of its means by name."""
        return {"goes_on": self.goes_on, "promised": self._promised, "fulfilled": self._fulfilled}


def best_part(
    tree: TokenTree, verify: Seconds, rate: float, trust: float, *, least: int = 0
) -> TokenTree:
    """Return as many of a tree's best nodes as are worth their rows.

    Args:
        tree: what is drafted.
        verify: seconds of a target forward by its rows.
        rate: tokens that a second is worth.
        trust: factor from the draft's probabilities to those of acceptance.
        least: drafted nodes to keep in any case, as far as there are any.
    """
    probs = [min(trust * exp(score), 1.0) for score in tree.scores[1:]]
    worths = [
        tokens - rate * verify(rows)
        for rows, tokens in enumerate(accumulate(probs, initial=1.0), start=1)
    ]
    kept = range(min(least, tree.drafted), len(worths))
    return tree.best(max(kept, key=worths.__getitem__))


def promised(tree: TokenTree) -> float:
    """Accepted tokens that the draft's own probabilities promise of a tree."""
    return sum(exp(score) for score in tree.scores[1:])
