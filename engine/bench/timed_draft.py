"""A drafter with a clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

from engine.backend.round import Budget
from engine.backend.tree import TokenTree
from engine.speculative.drafters.drafter import DraftContext, Drafter


@dataclass(slots=True)
class TimedDrafter:
    """A drafter, and how long the levels of its trees have taken, overhead included."""

    drafter: Drafter
    seconds: float = 0.0
    levels: int = 0

    @property
    def name(self) -> str:
        """Name of the drafter."""
        return self.drafter.name

    def begin_seconds(self, context: DraftContext) -> float:
        """See `Drafter`."""
        return self.drafter.begin_seconds(context)

    def begin(self, context: DraftContext) -> None:
        """See `Drafter`."""
        self.drafter.begin(context)

    def propose(self, context: DraftContext, budget: Budget) -> TokenTree:
        """See `Drafter`."""
        begun = perf_counter()
        tree = self.drafter.propose(context, budget)
        if levels := depth(tree):
            self.seconds += perf_counter() - begun
            self.levels += levels
        return tree

    def observe(self, committed: Sequence[int]) -> None:
        """See `Drafter`."""
        self.drafter.observe(committed)


def depth(tree: TokenTree) -> int:
    """Levels below the root."""
    depths = [0]
    for parent in tree.parents[1:]:
        depths.append(depths[parent] + 1)
    return max(depths)
