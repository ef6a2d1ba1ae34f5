"""A device's memory as parts of a bar. No Qt."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate

from engine.language import later
from engine.machine.memory import DeviceMemory


class MemoryPart(StrEnum):
    """Uses of memory, texts for `tr`, in the order in which they are stacked."""

    TARGET = later("Target")
    DRAFT = later("Draft")
    KEPT = later("KV cache")
    WORK = later("Workspace")
    RUNTIME = later("Driver")
    FREE = later("Free")
    RESERVE = later("Reserve")
    OTHERS = later("Other programs")


OURS = (MemoryPart.TARGET, MemoryPart.DRAFT, MemoryPart.KEPT, MemoryPart.WORK, MemoryPart.RUNTIME)
"""Held by Duotail."""


@dataclass(frozen=True, slots=True)
class BarSegment:
    """A stretch of a bar."""

    part: MemoryPart
    nbytes: int


@dataclass(frozen=True, slots=True)
class Stack:
    """All of a device's memory, from the left to the right; no part is there twice or empty."""

    total: int
    segments: tuple[BarSegment, ...]

    @property
    def over(self) -> int:
        """Bytes that are wanted beyond what there is."""
        return max(sum(each.nbytes for each in self.segments) - self.total, 0)

    def of(self, part: MemoryPart) -> int:
        """Bytes of a part."""
        return next((each.nbytes for each in self.segments if each.part is part), 0)

    @property
    def ours(self) -> int:
        """Bytes that Duotail holds."""
        return sum(self.of(part) for part in OURS)

    def edges(self, width: float) -> list[tuple[BarSegment, int, int]]:
        """Return where the segments begin and end on a bar of so many pixels, without gaps."""
        whole = max(self.total, sum(each.nbytes for each in self.segments), 1)
        ends = [round(width * end / whole) for end in accumulate(s.nbytes for s in self.segments)]
        return list(zip(self.segments, [0, *ends][:-1], ends, strict=True))


def stacked(held: DeviceMemory | None, total: int, others: int, reserve: int = 0) -> Stack:
    """A device with what a plan takes of it, what others hold, and what is left to them.

    What others hold is never cut; the reserve is, where they have taken some of it.
    """
    parts = dict.fromkeys(MemoryPart, 0)
    if held is not None:
        parts[MemoryPart.TARGET], parts[MemoryPart.DRAFT] = held.target, held.draft
        parts[MemoryPart.KEPT], parts[MemoryPart.WORK] = held.kv + held.features, held.workspace
        parts[MemoryPart.RUNTIME] = held.runtime
    parts[MemoryPart.OTHERS] = max(min(others, total), 0)
    left = max(total - sum(parts.values()), 0)
    parts[MemoryPart.RESERVE] = min(reserve, left)
    parts[MemoryPart.FREE] = left - parts[MemoryPart.RESERVE]
    return Stack(total, tuple(BarSegment(part, n) for part, n in parts.items() if n > 0))
