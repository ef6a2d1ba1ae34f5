"""A draft for a target, and what speaks for or against it. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Verdict(StrEnum):
    """Whether a draft can draft for a target."""

    FITS = "fits"
    LIKELY = "likely"
    """Only the files will tell: it is not on this disk."""
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
