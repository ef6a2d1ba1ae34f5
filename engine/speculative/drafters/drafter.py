"""What drafts: it proposes a tree of tokens, then observes what the target committed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.backend.round import Budget
from engine.backend.sequence import FeatureStore
from engine.backend.tree import TokenTree, follow
from engine.speculative.sampler import Sampler

_FORGET = 0.95
_PATIENCE = 12.0
"""Proposals (forgetting) before a drafter is judged."""
_WORTH = 0.04
"""Accepted tokens per proposal that a drafter must bring alone."""
_REST = 64
"""Rounds a dropped drafter rests before it is tried again."""


@dataclass(frozen=True, slots=True)
class DraftContext:
    """The answer as a drafter sees it.

    Attributes:
        tokens: all committed tokens, the root last. Live: it grows as rounds are committed.
        sampler: ranks candidates with the target's own noise.
        cancelled: whether the user has stopped the answer; long work asks in between.
        features: the target's, of all tokens but the root, where it keeps them.
    """

    tokens: Sequence[int]
    sampler: Sampler
    cancelled: Callable[[], bool]
    features: FeatureStore | None = None


class Drafter(Protocol):
    """Proposes tokens for the target to verify. Its trees cost speed when wrong, never the text."""

    def begin(self, context: DraftContext) -> None:
        """Start a new answer; this takes next to no time."""
        ...

    def missing(self, context: DraftContext) -> int:
        """Return how many tokens it has to read before it drafts as well as it can."""
        ...

    def read(self, context: DraftContext, most: int) -> None:
        """Read what is missing, or where that is more than `most` tokens, the last ones only.

        That may take a while; a model drafts nothing before.
        """
        ...

    def propose(self, context: DraftContext, budget: Budget) -> TokenTree:
        """Return a tree whose root is the last committed token; the root alone for no proposal."""
        ...

    def observe(self, committed: Sequence[int]) -> None:
        """Learn the tokens that the round has committed, in order."""
        ...


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

    Args:
        drafters: the cheapest first; what two of them have right is the cheaper one's merit.
    """

    def __init__(self, drafters: Sequence[Drafter]) -> None:
        self._records = [_Record(drafter) for drafter in drafters]

    @property
    def drafters(self) -> tuple[Drafter, ...]:
        """The drafters that are combined."""
        return tuple(record.drafter for record in self._records)

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

    def propose(self, context: DraftContext, budget: Budget) -> TokenTree:
        """Return the union of the drafters' trees, cut to the budget."""
        tree = TokenTree.root(context.tokens[-1])
        for record in self._records:
            if record.resting:
                record.resting -= 1
                continue
            record.tree = record.drafter.propose(context, budget)
            tree = tree.merge(record.tree)
        return tree.best(budget.nodes)

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
