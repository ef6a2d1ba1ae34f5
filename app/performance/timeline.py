"""Rounds on two lanes over time: who works when, who waits, and where it lands in pixels. No Qt."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice

from engine.events import Interval, RoundFinished

SPANS_S = (0.1, 0.2, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 10.0, 15.0, 20.0, 30.0, 60.0)
"""Stretches of time the timeline can show."""
ROUNDS_IN_VIEW = 7
_LOOK_BACK = 4
"""How many rounds apart work on the two lanes may still overlap."""


class Lane(StrEnum):
    """Who works."""

    DRAFT = "draft"
    VERIFY = "verify"


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of work in pixels from the left edge; `plain` is a verification without a draft."""

    lane: Lane
    left: float
    right: float
    round: RoundFinished
    plain: bool = False


@dataclass(frozen=True, slots=True)
class Shares:
    """What the rounds' time went into, each 0 to 1 of `seconds`; `both` is part of the two."""

    seconds: float
    draft: float
    verify: float
    both: float

    @property
    def neither(self) -> float:
        """Share in which no lane worked."""
        return max(1.0 - (self.draft + self.verify - self.both), 0.0)


@dataclass(slots=True)
class Timeline:
    """The newest rounds of one answer, with the sums that its idle time follows from.

    Each lane does one thing at a time; the lanes may overlap, across neighbouring rounds too.
    """

    rounds: deque[RoundFinished] = field(default_factory=lambda: deque(maxlen=4096))
    span: float = 1.0
    """Seconds in view."""
    _start: float | None = None
    _busy: dict[Lane, float] = field(default_factory=lambda: dict.fromkeys(Lane, 0.0))
    _both: float = 0.0

    def add(self, done: RoundFinished) -> None:
        """Take a round in; round 0 is drawn, but it belongs to the prompt, not to the shares."""
        if done.index > 0:
            self._count(done)
        self.rounds.append(done)
        self._choose_span()

    def _count(self, done: RoundFinished) -> None:
        if self._start is None:
            self._start = min(i.start for i in (done.draft, done.verify) if i)
        self._busy[Lane.VERIFY] += done.verify.seconds
        recent = [r for r in islice(reversed(self.rounds), _LOOK_BACK) if r.index > 0]
        if done.draft:
            self._busy[Lane.DRAFT] += done.draft.seconds
            self._both += _overlap(done.draft, done.verify)
            self._both += sum(_overlap(done.draft, r.verify) for r in recent)
        self._both += sum(_overlap(r.draft, done.verify) for r in recent if r.draft)

    def _choose_span(self) -> None:
        newest = list(islice(reversed(self.rounds), ROUNDS_IN_VIEW))[::-1]
        if len(newest) < 2:
            return
        each = (newest[-1].verify.end - newest[0].verify.end) / (len(newest) - 1)
        needed = each * ROUNDS_IN_VIEW
        if not 0.4 * self.span <= needed <= self.span:
            self.span = next((s for s in SPANS_S if s >= needed), SPANS_S[-1])

    @property
    def end(self) -> float | None:
        """The right edge: when the newest round ended."""
        return self.rounds[-1].verify.end if self.rounds else None

    @property
    def shares(self) -> Shares | None:
        """Where the time since round 1 went; None before it."""
        if self._start is None or not self.rounds:
            return None
        seconds = self.rounds[-1].verify.end - self._start
        if seconds <= 0:
            return None
        draft, verify = (min(self._busy[lane] / seconds, 1.0) for lane in Lane)
        return Shares(seconds, draft, verify, min(self._both / seconds, 1.0))

    def visible(self) -> list[RoundFinished]:
        """Rounds of which something lies in view, oldest first."""
        if self.end is None:
            return []
        start = self.end - self.span
        found: list[RoundFinished] = []
        for done in reversed(self.rounds):
            if done.verify.end < start:
                break
            found.append(done)
        return found[::-1]

    def blocks(self, width: float) -> list[Block]:
        """The work in view as blocks in a strip `width` pixels wide, cut off at its left edge."""
        if self.end is None:
            return []
        start, scale = self.end - self.span, width / self.span
        blocks = []
        for done in self.visible():
            for lane, work in ((Lane.DRAFT, done.draft), (Lane.VERIFY, done.verify)):
                if work is None or work.end <= start:
                    continue
                left = max((work.start - start) * scale, 0.0)
                plain = lane is Lane.VERIFY and not done.drafted
                blocks.append(Block(lane, left, (work.end - start) * scale, done, plain))
        return blocks

    def block_at(self, x: float, lane: Lane, width: float) -> Block | None:
        """The block under a point."""
        for block in self.blocks(width):
            if block.lane is lane and block.left <= x <= block.right:
                return block
        return None


def overlaps(blocks: list[Block]) -> list[tuple[float, float]]:
    """Stretches, in pixels, in which both lanes work."""
    drafts = [b for b in blocks if b.lane is Lane.DRAFT]
    verifies = [b for b in blocks if b.lane is Lane.VERIFY]
    both = []
    for draft in drafts:
        for verify in verifies:
            left, right = max(draft.left, verify.left), min(draft.right, verify.right)
            if right > left:
                both.append((left, right))
    return both


def _overlap(a: Interval, b: Interval) -> float:
    return max(min(a.end, b.end) - max(a.start, b.start), 0.0)
