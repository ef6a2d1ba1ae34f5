"""Memory of a device: what a plan takes there, what a load lacks, who else holds it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Bytes that a plan takes on one device, by purpose; `budget` is what it may take at most.

    Attributes:
        kv: keys and values of one sequence at the planned context, target and draft.
        features: what one sequence keeps of the target's hidden states for a head that drafts.
        workspace: activations, logits, scratch.
        runtime: what the device's own software takes before anything is loaded.
    """

    device: str
    budget: int
    target: int = 0
    draft: int = 0
    kv: int = 0
    workspace: int = 0
    runtime: int = 0
    features: int = 0

    @property
    def total(self) -> int:
        """Bytes for all purposes."""
        weights = self.target + self.draft
        return weights + self.kv + self.features + self.workspace + self.runtime


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
    """Memory that a load lacks, in bytes.

    Attributes:
        device: name in plans; "cpu" is the PC's memory.
        name: the device's name for people.
        needed: memory that the smallest plan for the wish needs, by purpose.
        free: memory that Duotail might take there.
        holders: other programs that hold memory there, the largest first.
        budgeted: whether it is the user's own budget that ends there, not what other programs hold.
    """

    device: str
    name: str
    needed: DeviceMemory
    free: int
    holders: tuple[Holder, ...] = ()
    budgeted: bool = False

    @property
    def missing(self) -> int:
        """Bytes that would have to be free in addition."""
        return max(self.needed.total - self.free, 0)
