"""What drafts: it proposes a tree of tokens, then observes what the target committed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.backend.round import Budget
from engine.backend.sequence import FeatureStore
from engine.backend.tree import TokenTree
from engine.speculative.costs import DraftCosts
from engine.speculative.sampler import Sampler


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

    @property
    def costs(self) -> DraftCosts | None:
        """Tells the seconds of any budget, see `DraftCosts`; None where that is next to nothing."""
        ...

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

    def at_once(self, context: DraftContext, most: int) -> TokenTree:
        """Return what it proposes for next to nothing, `most` tokens deep; of a model, no node."""
        ...

    def propose(self, context: DraftContext, budget: Budget) -> TokenTree:
        """Return a tree whose root is the last committed token; the root alone for no proposal."""
        ...

    def observe(self, committed: Sequence[int]) -> None:
        """Learn the tokens that the round has committed, in order."""
        ...
