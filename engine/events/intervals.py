"""When work was under way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Interval:
    """A span of work on one lane, in seconds on the events' clock."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """Length in seconds."""
        return self.end - self.start


def hull(intervals: Sequence[Interval]) -> Interval | None:
    """Interval from the start of the first to the end of the last; None where there are none."""
    return Interval(intervals[0].start, intervals[-1].end) if intervals else None
