"""What went wrong, and the ways out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from engine.commands import Load
from engine.machine.memory import Shortage


class FailureKind(StrEnum):
    """Kinds of trouble, as far as the window can offer a way out."""

    OTHER = "other"
    CONTEXT_FULL = "context full"
    OUT_OF_MEMORY = "out of memory"
    ABSENT = "absent"
    """Something optional is not here: a graphics card."""
    NEEDS_PYTORCH = "needs PyTorch"
    """It is not here and can be downloaded: see `engine.pytorch`."""
    MODEL_UNUSABLE = "model unusable"
    NOT_POSSIBLE = "not possible"
    """Not with this model."""


@dataclass(frozen=True, slots=True)
class WayOut:
    """Another load that was planned and fits.

    Attributes:
        words: what is different, for a button: "Context of 4,096 tokens".
        tokens_per_s: predicted.
    """

    words: str
    load: Load
    tokens_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """Something went wrong, in plain words. `request_id` is None outside an answer.

    When it belongs to an answer, a `Finished` with reason ERROR follows that carries what was
    written before. `bug` marks our own mistakes, as against what the user can mend.
    """

    at: float
    request_id: str | None
    cause: str
    remedy: str
    details: str = ""
    bug: bool = field(default=False)
    kind: FailureKind = FailureKind.OTHER
    needed: int | None = None
    available: int | None = None
    """For CONTEXT_FULL: tokens of the request, and of the context."""
    shortage: Shortage | None = None
    """For OUT_OF_MEMORY of a load."""
    ways_out: tuple[WayOut, ...] = ()
    """Loads that would fit, best first."""
