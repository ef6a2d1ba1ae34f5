"""What can be asked of the engine thread. Frozen and picklable, like the events that answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from engine.request import ChatRequest


class Mode(StrEnum):
    """Where target and draft run. `AUTO` lets the planner choose."""

    AUTO = "auto"
    PLAIN = "plain"
    CPU = "cpu"
    DOVETAIL = "dovetail"
    DUO = "duo"


class DraftChoice(StrEnum):
    """Draft sources that are not a model folder."""

    AUTO = "auto"
    LOOKUP = "lookup"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Load:
    """Load a target, and what drafts for it; an answer in progress is stopped first.

    The model in memory stays in use when the new one turns out to be unusable.
    `context` is the planned number of tokens (None: the model's own limit, capped by memory).
    """

    model: Path
    draft: Path | DraftChoice = DraftChoice.AUTO
    mode: Mode = Mode.AUTO
    context: int | None = None


@dataclass(frozen=True, slots=True)
class Generate:
    """Write an answer. Waits its turn while another one is written or a model loads."""

    request: ChatRequest


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop the answer `request_id`, wherever it is; None stops whatever is running (a load too)."""

    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class Unload:
    """Give the model's memory back."""


Command = Load | Generate | Stop | Unload
