"""What a device's memory is made of, as parts of a bar. No Qt."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate

from engine.language import later
from engine.machine.memory import DeviceMemory


class Part(StrEnum):
    """Who or what memory is for; texts for `tr`, in the order in which they are stacked."""

    TARGET = later("Target")
    DRAFT = later("Draft")
    KEPT = later("Keys and values")
    WORK = later("Work")
    RUNTIME = later("Driver")
    FREE = later("Free")
    RESERVE = later("Reserve")
    OTHERS = later("Other programs")


OURS = (Part.TARGET, Part.DRAFT, Part.KEPT, Part.WORK, Part.RUNTIME)
"""Held by Duotail."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a bar."""

    part: Part
    nbytes: int


@dataclass(frozen=True, slots=True)
class Stack:
    """All of a device's memory, from the left to the right; no part is there twice or empty."""

    total: int
    segments: tuple[Segment, ...]

    @property
    def over(self) -> int:
        """Bytes that are wanted beyond what there is."""
        return max(sum(each.nbytes for each in self.segments) - self.total, 0)

    def of(self, part: Part) -> int:
        """Bytes of a part."""
        return next((each.nbytes for each in self.segments if each.part is part), 0)

    @property
    def ours(self) -> int:
        """Bytes that Duotail holds."""
        return sum(self.of(part) for part in OURS)

    def edges(self, width: float) -> list[tuple[Segment, int, int]]:
        """Where the segments begin and end on a bar of so many pixels, without gaps."""
        whole = max(self.total, sum(each.nbytes for each in self.segments), 1)
        ends = [round(width * end / whole) for end in accumulate(s.nbytes for s in self.segments)]
        return list(zip(self.segments, [0, *ends][:-1], ends, strict=True))


def stacked(held: DeviceMemory | None, total: int, others: int, reserve: int = 0) -> Stack:
    """A device with what a plan takes of it, what others hold, and what is left to them.

    What others hold is never cut; the reserve is, where they have taken some of it.
    """
    parts = dict.fromkeys(Part, 0)
    if held is not None:
        parts[Part.TARGET], parts[Part.DRAFT] = held.target, held.draft
        parts[Part.KEPT], parts[Part.WORK] = held.kv + held.features, held.workspace
        parts[Part.RUNTIME] = held.runtime
    parts[Part.OTHERS] = max(min(others, total), 0)
    left = max(total - sum(parts.values()), 0)
    parts[Part.RESERVE] = min(reserve, left)
    parts[Part.FREE] = left - parts[Part.RESERVE]
    return Stack(total, tuple(Segment(part, n) for part, n in parts.items() if n > 0))
