"""Gaps of the timeline in which a lane waits, each with its reason. No Qt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from app.performance.timeline import Lane, joined
from engine.events import Interval, RoundFinished
from engine.language import later, tr


class Cause(StrEnum):
    """Reasons why a lane waits."""

    DRAFT = later("waiting for the draft")
    TARGET = later("waiting for the target")
    NOTHING_LEFT = later("nothing left to draft")
    """The target verifies, and the draft has guessed all it may behind that already."""
    HOST = later("sampling and Python")
    COPYING = later("copying")
    PLAIN = later("no draft in this round")

    @property
    def words(self) -> str:
        """Return the name for people."""
        return tr(self.value)

    @property
    def short(self) -> str:
        """Return the cause where there is little room; "" where a short text would be unclear."""
        if self in (Cause.HOST, Cause.COPYING):
            return ""
        return tr("no draft") if self is Cause.PLAIN else tr("waits")

    @property
    def full(self) -> str:
        """Return the text with the name of who waits, where there is much room."""
        return tr(_FULL.get(self, self.value))


_FULL = {
    Cause.DRAFT: later("target waits for the draft"),
    Cause.TARGET: later("draft waits for the target"),
    Cause.NOTHING_LEFT: later("draft waits: nothing left to draft"),
}


@dataclass(frozen=True, slots=True)
class Gap:
    """A lane does nothing from `start` to `end`, in seconds."""

    lane: Lane
    start: float
    end: float
    cause: Cause


@dataclass(frozen=True, slots=True)
class _Work:
    start: float
    end: float
    cause: Cause
    """The reason why this lane waits, found in the work of the other one."""


def gaps(rounds: Sequence[RoundFinished], start: float, end: float, fine: float = 0.0) -> list[Gap]:
    """The gaps of both lanes between two moments, of rounds that are neighbours in time.

    Args:
        rounds: rounds in order of time.
        start: begin of the stretch, in seconds like all times here.
        end: where the last round ends, if that is earlier.
        fine: shorter rests count as work.
    """
    drafting = ((done, each) for done in rounds for each in done.drafting)
    drafts = [_Work(work.start, work.end, Cause.DRAFT) for _, work in joined(drafting, fine)]
    verifies = _joined(
        (
            _Work(done.verify.start, done.verify.end, Cause.TARGET if done.drafted else Cause.PLAIN)
            for done in rounds
        ),
        fine,
    )
    if not verifies:
        return []
    start = max(start, min(each.start for each in (*drafts[:1], *verifies[:1])))
    end = min(end, max(each.end for each in (*drafts[-1:], *verifies[-1:])))
    found = [*_gaps(Lane.VERIFY, verifies, drafts, start, end)]
    if drafts:
        found += _gaps(Lane.DRAFT, drafts, verifies, start, end)
    copies = sorted((each for done in rounds for each in done.transfers), key=lambda c: c.start)
    return [part for gap in found for part in _copying(gap, copies)] if copies else found


def _copying(gap: Gap, copies: Sequence[Interval]) -> Iterator[Gap]:
    """Yield the parts of a gap that went into copies, where no lane explains it."""
    at = gap.start
    for copy in copies if gap.cause is Cause.HOST else ():
        start, end = max(copy.start, at), min(copy.end, gap.end)
        if end <= start:
            continue
        if start > at:
            yield replace(gap, start=at, end=start)
        yield replace(gap, start=start, end=end, cause=Cause.COPYING)
        at = end
    if at < gap.end:
        yield replace(gap, start=at)


def _joined(works: Iterable[_Work], fine: float) -> list[_Work]:
    """Verifying in one piece where the rest within is shorter than `fine`."""
    found: list[_Work] = []
    for work in works:
        if found and work.start - found[-1].end < fine and work.cause is found[-1].cause:
            found[-1] = _Work(found[-1].start, work.end, work.cause)
        else:
            found.append(work)
    return found


def _gaps(
    lane: Lane, own: Sequence[_Work], others: Sequence[_Work], start: float, end: float
) -> Iterator[Gap]:
    first, ends = 0, {each.end for each in own}
    for left, right in _between(own, start, end):
        at = left
        while first < len(others) and others[first].end <= left:
            first += 1
        for other in others[first:]:
            if other.start >= right:
                break
            if other.start > at:
                yield Gap(lane, at, other.start, Cause.HOST)
            busy_until = min(other.end, right)
            # Who worked beside the other and rests until that is done has done all it may.
            beside = left in ends and left > other.start and right >= other.end
            ahead = beside and other.cause is Cause.TARGET
            cause = Cause.NOTHING_LEFT if ahead else other.cause
            yield Gap(lane, max(other.start, at), busy_until, cause)
            at = busy_until
        if at < right:
            yield Gap(lane, at, right, Cause.HOST)


def _between(works: Sequence[_Work], start: float, end: float) -> Iterator[tuple[float, float]]:
    """The stretches from `start` to `end` in which none of the works goes on."""
    at = start
    for work in works:
        if work.start > at:
            yield at, min(work.start, end)
        at = max(at, work.end)
        if at >= end:
            return
    yield at, end
