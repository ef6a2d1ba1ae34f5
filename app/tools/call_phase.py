"""How far a tool call is, and what users say to it."""

from __future__ import annotations

from enum import Enum, auto


class CallPhase(Enum):
    """How far a call is."""

    ASKED = auto()
    """Nobody has allowed it yet."""
    WAITING = auto()
    """Another call comes first."""
    RUNNING = auto()
    DONE = auto()
    FAILED = auto()
    DECLINED = auto()
    STOPPED = auto()
    """It began, and was stopped, or Duotail was closed."""


class Decision(Enum):
    """Answers to the question whether a tool may run."""

    ONCE = auto()
    CHAT = auto()
    """In this chat, until Duotail is closed."""
    ALWAYS = auto()
    """This tool, as it is now, in every chat."""
    DECLINE = auto()
