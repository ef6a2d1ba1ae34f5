"""Rounds on lanes over time: who works when, who waits, and where it lands in pixels. No Qt."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from app.performance.busy import Accumulated
from engine.events import Interval, RoundFinished

_BELOW_ONE_S = (0.002, 0.003, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8)
_ABOVE_ONE_S = (1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)
SPANS_S = (*_BELOW_ONE_S, *_ABOVE_ONE_S)
"""Stretches of time that the timeline can show beside the whole answer."""
_LOOKED_UP = 0.02
"""A smaller part of the time that verifying takes is no draft's work: the tokens were looked up."""
_MOST_KEPT = 100_000
_VISIBLE = 0.5
"""Pixels: a shorter rest between two pieces of drafting cannot be seen."""
_LOOK_BACK = 4
"""Rounds by which work on the two lanes may be apart and still overlap."""


class Lane(StrEnum):
    """Lanes of the timeline."""

    DRAFT = "draft"
    VERIFY = "verify"
    COPY = "copy"


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of time, drawn `width` pixels wide."""

    start: float
    end: float
    width: float

    def x(self, time: float) -> float:
        """Return where a moment lies, in pixels from the left edge."""
        return (time - self.start) * (self.width / (self.end - self.start))

    def time(self, x: float) -> float:
        """Return the moment at a pixel."""
        return self.start + x * (self.end - self.start) / self.width


@dataclass(frozen=True, slots=True)
class TimelineBlock:
    """A piece of work in pixels from the left edge; `plain` is a verification without a draft.

    Pieces of drafting that lie closer together than can be seen are one, of the first one's round.
    """

    lane: Lane
    left: float
    right: float
    round: RoundFinished
    plain: bool = False


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of the rounds' time, each 0 to 1 of `seconds`; `both` is part of the other two.

    `useful` and `wasted` are parts of `draft`: some of what was drafted then was committed, or
    none of it. What neither counts has its fate still open. `copying` may be part of anything.
    """

    seconds: float
    draft: float
    verify: float
    both: float
    useful: float = 0.0
    wasted: float = 0.0
    copying: float = 0.0

    @property
    def looks_up(self) -> bool:
        """True if drafting took next to no time, as looking up earlier words does."""
        return self.draft < _LOOKED_UP * self.verify

    @property
    def neither(self) -> float:
        """Share in which no lane worked."""
        return max(1.0 - (self.draft + self.verify - self.both), 0.0)

    @property
    def open(self) -> float:
        """Share of drafting of which nobody knows yet what will become of it."""
        return max(self.draft - self.useful - self.wasted, 0.0)


def _lanes() -> dict[Lane, Accumulated]:
    return {lane: Accumulated() for lane in Lane}


@dataclass(slots=True)
class Timeline:
    """The rounds of one answer, with the sums that its idle time follows from.

    Each lane does one thing at a time; the lanes may overlap, across neighbouring rounds too. A
    round may have drafted several times, before its verification, during it, or before the
    verification of the round before.
    """

    request_id: str = ""
    rounds: list[RoundFinished] = field(default_factory=list)
    """Oldest first; of a very long answer the newest."""
    busy: dict[Lane, Accumulated] = field(default_factory=_lanes)
    """Seconds of work on each lane."""
    useful: Accumulated = field(default_factory=Accumulated)
    """Seconds of drafting that brought something."""
    drafted: Accumulated = field(default_factory=Accumulated)
    accepted: Accumulated = field(default_factory=Accumulated)
    """Tokens, over the verifications."""
    _start: float | None = None
    _busy_draft: float = 0.0
    _busy_verify: float = 0.0
    _both: float = 0.0
    _useful: float = 0.0
    _wasted: float = 0.0
    _copying: float = 0.0
    copies: bool = False
    """True if anything was copied from one device to another."""

    def add(self, done: RoundFinished) -> None:
        """Take a round in; round 0 is drawn, but it belongs to the prompt, not to the shares."""
        if done.index > 0:
            self._count(done)
        self.copies = self.copies or bool(done.transfers)
        self.rounds.append(done)
        self._accumulate(done)
        if len(self.rounds) > _MOST_KEPT:
            del self.rounds[: _MOST_KEPT // 2]
            for each in (*self.busy.values(), self.useful, self.drafted, self.accepted):
                each.forget(begin_of(self.rounds[0]))

    def _accumulate(self, done: RoundFinished) -> None:
        decided = done.useful_s + done.wasted_s
        useful = done.useful_s / decided if decided > 0 else 0.0
        for work in done.drafting:
            self.busy[Lane.DRAFT].add(work.start, work.end, work.seconds)
            self.useful.add(work.start, work.end, useful * work.seconds)
        for copy in done.transfers:
            self.busy[Lane.COPY].add(copy.start, copy.end, copy.seconds)
        start, end = done.verify.start, done.verify.end
        self.busy[Lane.VERIFY].add(start, end, done.verify.seconds)
        self.drafted.add(start, end, done.drafted)
        self.accepted.add(start, end, done.accepted)

    def _count(self, done: RoundFinished) -> None:
        if self._start is None:
            # A draft that reads the prompt may have begun with it; that time is not the rounds'.
            first = self.rounds[-1].verify.end if self.rounds else -math.inf
            self._start = max(begin_of(done), first)
        self._busy_verify += done.verify.seconds
        self._useful += done.useful_s
        self._wasted += done.wasted_s
        self._copying += sum(each.seconds for each in done.transfers)
        drafting = _since(self._start, done.drafting)
        self._busy_draft += sum(each.seconds for each in drafting)
        if not self._busy_draft:
            return
        self._both += _overlap(drafting, done.verify)
        begin = begin_of(done)
        for other in reversed(self.rounds[-_LOOK_BACK:]):
            if other.index == 0 or end_of(other) <= begin:
                break
            self._both += _overlap(drafting, other.verify)
            self._both += _overlap(_since(self._start, other.drafting), done.verify)

    @property
    def start(self) -> float | None:
        """Return the moment when the oldest round began."""
        return begin_of(self.rounds[0]) if self.rounds else None

    @property
    def begun(self) -> float | None:
        """Return the moment when the rounds on show began: the prompt's own is none of them."""
        start = self.start
        return start if start is None or self._start is None else max(start, self._start)

    @property
    def end(self) -> float | None:
        """Return the moment when the newest round ended."""
        return end_of(self.rounds[-1]) if self.rounds else None

    @property
    def shares(self) -> Shares | None:
        """Return where the time since round 1 went; None before it."""
        if self._start is None or not self.rounds:
            return None
        seconds = end_of(self.rounds[-1]) - self._start
        if seconds <= 0:
            return None
        busy = (self._busy_draft, self._busy_verify, self._both)
        draft, verify, both = (min(each / seconds, 1.0) for each in busy)
        # Some of what was decided may have been drafted beside the prompt.
        decided = max(self._useful + self._wasted, draft * seconds)
        useful, wasted = (
            draft * each / decided if decided else 0.0 for each in (self._useful, self._wasted)
        )
        copying = min(self._copying / seconds, 1.0)
        return Shares(seconds, draft, verify, both, useful, wasted, copying)

    def between(self, start: float, end: float) -> list[RoundFinished]:
        """Rounds of which something lies between two moments, oldest first."""
        first = bisect_left(self.rounds, start, key=end_of)
        last = bisect_right(self.rounds, end, key=begin_of, lo=first)
        return self.rounds[first:last]

    def at(self, time: float) -> RoundFinished | None:
        """The round that was under way; of two at once the older one."""
        found = self.between(time, time)
        return found[0] if found else None

    def writing(self, offset: int) -> RoundFinished | None:
        """The round that wrote the letter at `offset` of the answer."""
        index = bisect_right(self.rounds, offset, key=lambda done: done.text_end)
        if index == len(self.rounds) or self.rounds[index].text_start > offset:
            return None
        return self.rounds[index]

    def neighbour(self, done: RoundFinished, step: int) -> RoundFinished:
        """The round `step` places further on, the first or the last where there is none."""
        index = bisect_left(self.rounds, end_of(done), key=end_of) + step
        return self.rounds[min(max(index, 0), len(self.rounds) - 1)]


def blocks(rounds: list[RoundFinished], view: Stretch) -> list[TimelineBlock]:
    """The rounds' work in view as blocks, cut off at both edges, from left to right."""
    found: list[TimelineBlock] = []

    def add(lane: Lane, start: float, end: float, done: RoundFinished) -> None:
        left, right = max(view.x(start), 0.0), min(view.x(end), view.width)
        found.append(
            TimelineBlock(lane, left, right, done, lane is Lane.VERIFY and not done.drafted)
        )

    drafting = ((done, work) for done in rounds for work in done.drafting)
    for first, work in joined(drafting, _VISIBLE * (view.end - view.start) / view.width):
        if work.end > view.start and work.start < view.end:
            add(Lane.DRAFT, work.start, work.end, first)
    for done in rounds:
        if done.verify.end > view.start and done.verify.start < view.end:
            add(Lane.VERIFY, done.verify.start, done.verify.end, done)
        for copy in done.transfers:
            if copy.end > view.start and copy.start < view.end:
                add(Lane.COPY, copy.start, copy.end, done)
    return sorted(found, key=lambda block: block.left)


def joined(
    works: Iterable[tuple[RoundFinished, Interval]], fine: float
) -> Iterator[tuple[RoundFinished, Interval]]:
    """Drafting in order of time, in one piece where it rests for less than `fine` seconds.

    A piece goes by the round it began for.
    """
    first: RoundFinished | None = None
    start = end = 0.0
    for done, work in works:
        if first is not None and work.start - end < fine:
            end = work.end
            continue
        if first is not None:
            yield first, Interval(start, end)
        first, start, end = done, work.start, work.end
    if first is not None:
        yield first, Interval(start, end)


def overlaps(shown: list[TimelineBlock]) -> list[tuple[float, float]]:
    """Stretches, in pixels, in which both lanes work."""
    drafts = [block for block in shown if block.lane is Lane.DRAFT]
    verifies = [block for block in shown if block.lane is Lane.VERIFY]
    both, first = [], 0
    for draft in drafts:
        while first < len(verifies) and verifies[first].right <= draft.left:
            first += 1
        for verify in verifies[first:]:
            if verify.left >= draft.right:
                break
            both.append((max(draft.left, verify.left), min(draft.right, verify.right)))
    return both


def begin_of(done: RoundFinished) -> float:
    """Return the moment when a round's work began."""
    start = done.verify.start
    return min(done.drafting[0].start, start) if done.drafting else start


def end_of(done: RoundFinished) -> float:
    """Return the moment when a round's work ended: drafting may outlast verifying."""
    end = done.verify.end
    return max(done.drafting[-1].end, end) if done.drafting else end


def overlap(done: RoundFinished) -> float:
    """Seconds in which a round was drafted for while it was verified."""
    return _overlap(done.drafting, done.verify)


def _overlap(works: Sequence[Interval], other: Interval) -> float:
    return sum(max(min(a.end, other.end) - max(a.start, other.start), 0.0) for a in works)


def _since(start: float, works: Sequence[Interval]) -> list[Interval]:
    """Return the parts of the works that come after a moment."""
    return [Interval(max(each.start, start), each.end) for each in works if each.end > start]
