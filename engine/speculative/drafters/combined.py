"""Several drafters as one: their trees are merged, and lookup goes on behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.backend.round import Budget
from engine.backend.tree import TokenTree, follow
from engine.speculative.costs import DraftCosts
from engine.speculative.drafters.drafter import DraftContext, Drafter
from engine.speculative.drafters.lookup import LookupDrafter

_FORGET = 0.95
_PATIENCE = 12.0
"""Proposals (forgetting) before a drafter is judged."""
_WORTH = 0.04
"""Accepted tokens per proposal that a drafter must bring alone."""
_REST = 64
"""Rounds a dropped drafter rests before it is tried again."""


@dataclass(slots=True)
class _Record:
    """Recent gains of one drafter."""

    drafter: Drafter
    proposals: float = 0.0
    brought: float = 0.0
    resting: int = 0
    tree: TokenTree | None = None


class CombinedDrafter:
    """Merges the trees of its drafters over their common root, the best nodes first.

    A cascade: where lookup is among them, it goes on behind what the others have drafted, and
    proposes by itself what costs nothing.

    Args:
        drafters: the cheapest first; what two of them have right is the cheaper one's merit.
    """

    def __init__(self, drafters: Sequence[Drafter]) -> None:
        self._records = [_Record(drafter) for drafter in drafters]
        self._lookup = next((each for each in drafters if isinstance(each, LookupDrafter)), None)

    @property
    def drafters(self) -> tuple[Drafter, ...]:
        """The drafters that are combined."""
        return tuple(record.drafter for record in self._records)

    @property
    def costs(self) -> DraftCosts | None:
        """Costs of the model among them, if there is one: the others take next to nothing."""
        return next((each.costs for each in self.drafters if each.costs is not None), None)

    def begin(self, context: DraftContext) -> None:
        """Start a new answer, with every drafter."""
        for record in self._records:
            record.tree, record.resting = None, 0
            record.drafter.begin(context)

    def missing(self, context: DraftContext) -> int:
        """Return the tokens that all drafters together have to read."""
        return sum(record.drafter.missing(context) for record in self._records)

    def read(self, context: DraftContext, most: int) -> None:
        """Have those read that have to."""
        for record in self._records:
            if record.drafter.missing(context):
                record.drafter.read(context, most)

    def at_once(self, context: DraftContext, most: int) -> TokenTree:
        """Return what they propose for next to nothing."""
        tree = TokenTree.root(context.tokens[-1])
        for record in self._records:
            tree = tree.merge(record.drafter.at_once(context, most))
        return tree

    def propose(self, context: DraftContext, budget: Budget) -> TokenTree:
        """Return the union of the drafters' trees, cut to the budget, and what lookup adds."""
        tree = TokenTree.root(context.tokens[-1])
        for record in self._records:
            if record.resting:
                record.resting -= 1
                continue
            record.tree = record.drafter.propose(context, budget)
            tree = tree.merge(record.tree)
        tree = tree.best(budget.nodes)
        if self._lookup is None or not tree.drafted:
            return tree
        return self._lookup.extended(tree)

    def observe(self, committed: Sequence[int]) -> None:
        """Credit each drafter with the tokens it had right beyond the cheaper ones before it."""
        had = 0
        for record in self._records:
            right = _matched(record.tree, committed)
            if record.tree is not None and record.tree.drafted:
                record.proposals = record.proposals * _FORGET + 1
                record.brought = record.brought * _FORGET + max(right - had, 0)
                if record.proposals > _PATIENCE and record.brought < _WORTH * record.proposals:
                    record.resting, record.proposals, record.brought = _REST, 0.0, 0.0
            had = max(had, right)
            record.tree = None
            record.drafter.observe(committed)


def _matched(tree: TokenTree | None, committed: Sequence[int]) -> int:
    """Count the committed tokens that the tree holds along one path."""
    if tree is None or not tree.drafted:
        return 0
    return len(follow(tree.tokens, tree.parents, committed, 0))
