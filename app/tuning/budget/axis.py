"""The one axis of memory that slider and curve share, and round numbers along any axis. No Qt."""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.language import number

GIB, MIB = 2**30, 2**20
_ROUND = (1, 2, 5)


@dataclass(frozen=True, slots=True)
class Axis:
    """Axis from 0 to the GPU's total, on so many pixels from `left` on."""

    total: int
    left: float
    width: float

    @property
    def right(self) -> float:
        """Return where the card ends."""
        return self.left + self.width

    def x(self, vram: float) -> float:
        """The place of so many bytes."""
        return self.left + self.width * min(vram / max(self.total, 1), 1.0)

    def vram(self, x: float) -> float:
        """Return the bytes at a pixel, within the GPU's total."""
        share = (x - self.left) / max(self.width, 1.0)
        return min(max(share, 0.0), 1.0) * self.total

    @property
    def in_mib(self) -> bool:
        """Tell whether the numbers are in MiB; else they are in GiB."""
        return self.total < GIB

    def ticks(self, room: float) -> list[tuple[float, str]]:
        """Places with their numbers, each of which takes `room` pixels."""
        unit = MIB if self.in_mib else GIB
        size = self.total / unit
        step = round_step(size, max(int(self.width / max(room, 1.0)), 1))
        count = math.floor(size / step + 1e-9)
        spec = f".{max(-math.floor(math.log10(step) + 1e-9), 0)}f"
        return [
            (self.x(place * step * unit), number(place * step, spec)) for place in range(count + 1)
        ]


def round_step(size: float, most: int) -> float:
    """A round number of which at most `most` fit into `size`."""
    wanted = max(size / max(most, 1), 1e-3)
    ten = 10.0 ** math.floor(math.log10(wanted))
    return next(each * ten for each in (*_ROUND, 10) if each * ten >= wanted * (1 - 1e-9))
