"""One round of draft -> verify -> commit, and the text that came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Origin(StrEnum):
    """Who proposed a committed token. Either way the target has verified it."""

    DRAFTED = "drafted"
    TARGET = "target"


@dataclass(frozen=True, slots=True)
class Interval:
    """A span of work on one lane, in seconds on the events' clock."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end - self.start


def hull(intervals: Sequence[Interval]) -> Interval | None:
    """From the start of the first to the end of the last; None of none."""
    return Interval(intervals[0].start, intervals[-1].end) if intervals else None


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """The stretch of answer text one token wrote; empty for a token that completes no character."""

    token_id: int
    start: int
    end: int
    origin: Origin
    probability: float | None = None
    """What the target gave it, at temperature 1 and before penalties and filters; None where nobody
    told."""


@dataclass(frozen=True, slots=True)
class Guess:
    """A drafted token on the verified way: those that were accepted, then the first that was not.

    Attributes:
        text: what it writes; empty for a token that completes no character.
        draft_probability: what the draft model gave it behind the tokens before; where tokens are
            drawn, the draft ranks with the noise of the draw, and this is its guess at the draw.
            None of a token that no model has drafted (lookup).
        probability: what the target gave it, as in `TokenSpan`.
    """

    text: str
    draft_probability: float | None
    probability: float | None
    accepted: bool


@dataclass(frozen=True, slots=True)
class RoundFinished:
    """One round of draft -> verify -> commit.

    `drafted_by_depth[i]` tells whether a node at depth i + 1 was on offer below accepted nodes
    (1 or 0), `accepted_by_depth[i]` whether one was accepted: summed over rounds they give
    acceptance by position.
    """

    at: float
    request_id: str
    index: int
    drafting: tuple[Interval, ...]
    """When the draft lane computed, in order: for this round or, while the round before was being
    verified, ahead of it."""
    verify: Interval
    drafted: int
    accepted: int
    committed: int
    drafted_by_depth: tuple[int, ...] = ()
    accepted_by_depth: tuple[int, ...] = ()
    context_used: int = 0
    rejected: str = ""
    """Text of the likeliest drafted continuation that the target did not take."""
    text_start: int = 0
    text_end: int = 0
    """The stretch of the answer released with this round: that of its TextDelta, if it had one."""
    rejected_at: int = 0
    """Offset in the answer of the token the target wrote instead of `rejected`."""
    useful_s: float = 0.0
    wasted_s: float = 0.0
    """Seconds of drafting whose fate this round decided: some of it was committed, or none is any
    more."""
    transfers: tuple[Interval, ...] = ()
    """When something was copied from one device to another and somebody waited for it; since the
    round before, in order."""
    guesses: tuple[Guess, ...] = ()
    """The accepted ones, `accepted` of them, and the first of `rejected`."""

    @property
    def draft(self) -> Interval | None:
        """From the first drafting to the last."""
        return hull(self.drafting)

    @property
    def drafting_s(self) -> float:
        """Seconds in which the draft lane computed."""
        return sum(each.seconds for each in self.drafting)
