"""What a drafter is: it proposes a tree of tokens and learns what the target made of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.backend.features import FeatureStore
from engine.backend.round import Budget
from engine.backend.tree import TokenTree
from engine.speculative.sampler import Sampler


@dataclass(frozen=True, slots=True)
class DraftContext:
    """What a drafter may look at.

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
        """How long `begin` would take now, as far as is known."""
        ...

    def begin(self, context: DraftContext) -> None:
        """A new answer starts: catch up with its tokens, which may take a while."""
        ...

    def propose(self, context: DraftContext, budget: Budget) -> TokenTree:
        """A tree whose root is the last committed token; just the root when there is nothing."""
        ...

    def observe(self, committed: Sequence[int]) -> None:
        """The round has committed these tokens, in order."""
        ...
