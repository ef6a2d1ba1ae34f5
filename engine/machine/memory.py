"""Memory of a device: what a plan takes there, what a load lacks, who else holds it."""

from __future__ import annotations

from dataclasses import dataclass

from engine.machine.facts import Accelerator, Host

_MIB = 2**20
_HOST_RESERVE, _HOST_RESERVE_SHARE = 512 * _MIB, 1 / 32
_DEVICE_RESERVE, _DEVICE_RESERVE_SHARE = 200 * _MIB, 1 / 32


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


def host_reserve(host: Host) -> int:
    """Return the bytes of free memory that are left alone, so that nothing has to be swapped."""
    return int(min(_HOST_RESERVE, host.memory_available * _HOST_RESERVE_SHARE))


def device_reserve(found: Accelerator) -> int:
    """Return the bytes of an accelerator's free memory that are left to other programs."""
    if found.shares_host_memory:
        return 0
    return int(max(_DEVICE_RESERVE, (found.memory_total or 0) * _DEVICE_RESERVE_SHARE))
