"""What a load lacks, and who holds it."""

from __future__ import annotations

from dataclasses import dataclass

from engine.plan.plan import DeviceMemory


@dataclass(frozen=True, slots=True)
class Holder:
    """Another program, and what it holds of a device; None where the driver does not tell.

    `pid`: of its largest process; 0 of what only pretends to be one.
    """

    name: str
    pid: int
    nbytes: int | None


@dataclass(frozen=True, slots=True)
class Shortage:
    """What a load lacks, in bytes.

    Attributes:
        device: as in plans; "cpu" is the PC's memory.
        name: of the device, for people.
        needed: of the smallest way to meet the wish, by purpose.
        free: what Duotail might take there.
        holders: who else holds something there, the largest first.
    """

    device: str
    name: str
    needed: DeviceMemory
    free: int
    holders: tuple[Holder, ...] = ()

    @property
    def missing(self) -> int:
        """What would have to be free in addition."""
        return max(self.needed.total - self.free, 0)
