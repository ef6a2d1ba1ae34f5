"""Whether a model that is not here yet would run on this machine, and about how fast."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Badge(StrEnum):
    """In one word, from best to worst."""

    GPU = "gpu"
    """All of it on the accelerator."""
    SPLIT = "split"
    """Part on the accelerator, the rest on the CPU."""
    CPU = "cpu"
    """On the CPU, in memory."""
    TIGHT = "tight"
    """Only with other programs closed, or a short context."""
    NO = "no"
    """There is not enough memory."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Fit:
    """What the planner says of a model.

    Attributes:
        slowest, fastest: predicted tokens a second with the draft it would have; None: unknown.
        reason: one sentence for people, with the numbers that matter.
    """

    badge: Badge
    slowest: float | None = None
    fastest: float | None = None
    reason: str = ""
