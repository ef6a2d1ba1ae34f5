"""A model that suits this machine, with the draft to fetch beside it. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from engine.hub.fit import Fit


class RecommendedRole(StrEnum):
    """What a model is recommended for."""

    BALANCED = "balanced"
    """The best answers at a speed that is pleasant to read at."""
    FAST = "fast"
    BEST = "best"
    """The best answers that this machine gives at all."""
    REASONING = "reasoning"
    CODE = "code"
    SMALL = "small"
    """Fetched in a minute or two."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A model to fetch.

    Attributes:
        name: for people.
        repo, variant: where it is, and the name of the quantisation there, as in "Q4_K_M".
        nbytes: about as many as there are to fetch, the draft's included.
        draft, draft_repo, draft_variant: the model that is to draft for it; None where none is
            listed, or none would make it faster here.
        reason: one sentence, with the numbers that matter.
    """

    role: RecommendedRole
    name: str
    repo: str
    variant: str
    nbytes: int
    licence: str
    fit: Fit
    reason: str
    draft: str | None = None
    draft_repo: str | None = None
    draft_variant: str | None = None
