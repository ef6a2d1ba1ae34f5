"""Tokens that a grammar leaves no choice about: drafts that cost nothing and are never wrong."""

from __future__ import annotations

from collections.abc import Sequence

from engine.backend.round import Budget
from engine.backend.tree import TokenTree
from engine.speculative.drafters.drafter import DraftContext


class ForcedDrafter:
    """Proposes what the constraint of the sampler forces; nothing where there is none.

    The tokens are verified like all others, so the target's keys, probabilities and counts are
    those of an answer that was drafted by nobody.
    """

    costs = None

    def begin(self, context: DraftContext) -> None:
        """Do nothing: all of it is in the grammar."""

    def missing(self, context: DraftContext) -> int:
        """Return 0: it reads nothing."""
        del context
        return 0

    def read(self, context: DraftContext, most: int) -> None:
        """Do nothing."""

    def at_once(self, context: DraftContext, most: int) -> TokenTree:
        """Return all that is forced, `most` tokens deep."""
        return self.propose(context, Budget(most, most, 1))

    def propose(self, context: DraftContext, budget: Budget) -> TokenTree:
        """Return the chain of forced tokens."""
        constraint, root = context.sampler.constraint, context.tokens[-1]
        forced = [] if constraint is None else constraint.forced(context.tokens)
        forced = forced[: max(min(budget.nodes, budget.depth), 0)]
        nodes = [(place, token, 0.0) for place, token in enumerate(forced)]
        return TokenTree.build(root, nodes, weights=[None] * len(nodes))

    def observe(self, committed: Sequence[int]) -> None:
        """Do nothing: it knows the committed tokens from the context."""
