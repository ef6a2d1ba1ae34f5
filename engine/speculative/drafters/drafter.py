"""The drafter protocol: propose a tree of tokens, then observe what the target committed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.backend.round import Budget
from engine.backend.sequence import FeatureStore
from engine.backend.tree import TokenTree
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
    def name(self) -> str:
        """Name for people."""
        ...

    def begin_seconds(self, context: DraftContext) -> float:
        """Return the seconds that `begin` would take now, as far as is known."""
        ...

    def begin(self, context: DraftContext) -> None:
        """Start a new answer: catch up with its tokens, which may take a while."""
        ...

    def propose(self, context: DraftContext, budget: Budget) -> TokenTree:
        """Return a tree whose root is the last committed token; the root alone for no proposal."""
        ...

    def observe(self, committed: Sequence[int]) -> None:
        """Learn the tokens that the round has committed, in order."""
        ...
