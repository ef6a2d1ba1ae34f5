"""What is said of models before they run: fit, recommendation, draft. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Badge(StrEnum):
    """A model's fit on this machine, from best to worst."""

    GPU = "gpu"
    """All of it on the accelerator."""
    SPLIT = "split"
    """Part on the accelerator, the rest on the CPU."""
    CPU = "cpu"
    """On the CPU, in memory."""
    TIGHT = "tight"
    """Fits only with other programs closed, or a short context."""
    NO = "no"
    """There is not enough memory."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Fit:
    """The planner's judgement of a model.

    Attributes:
        slowest, fastest: predicted tokens a second with the draft it would have; None: unknown.
        reason: one sentence for people, with the numbers that matter.
    """

    badge: Badge
    slowest: float | None = None
    fastest: float | None = None
    reason: str = ""


class RecommendedRole(StrEnum):
    """Uses that a model is recommended for."""

    BALANCED = "balanced"
    """The best answers at a speed that is pleasant to read at."""
    FAST = "fast"
    BEST = "best"
    """The best answers that this machine gives at all."""
    REASONING = "reasoning"
    CODE = "code"
    SMALL = "small"
    """FetchedModel in a minute or two."""


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


class Verdict(StrEnum):
    """Answers to whether a draft can draft for a target."""

    FITS = "fits"
    LIKELY = "likely"
    """Probably fits; it is not on this disk, and only its files will tell."""
    NO = "no"


@dataclass(frozen=True, slots=True)
class DraftCandidate:
    """A model that could draft.

    Attributes:
        name: for people.
        path: on this disk; None of one that would have to be fetched.
        repo: on the hub; None of one that is only here.
        nbytes: of its weights, where known.
        head: a feature head, not a model of its own.
        reason: why it fits or does not, one sentence for people.
        speedup: predicted tokens/s over those without a draft; None where nobody knows.
    """

    name: str
    verdict: Verdict
    reason: str
    path: Path | None = None
    repo: str | None = None
    nbytes: int | None = None
    head: bool = False
    speedup: float | None = None
