"""Memory of a device: as planned, by its ledger, and as the system counts it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from engine.backend.ledger import Ledger, as_planned
from engine.devices.memory import MemoryComparison, touched
from engine.machine.facts import CPU
from engine.machine.memory import DeviceMemory
from engine.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes on one device.

    Attributes:
        predicted: by the plan.
        ledger: the same purposes, by the allocators.
        touched: what of that the system has handed out by now; caches grow into the rest.
        measured: by how much our process has grown since before the models came, as the system
            counts; None where nobody tells.
        peak: the most that the ledger ever held at once.
        budget: what it may hold; None is no limit.
        driver: all that our process holds there, as NVIDIA's driver counts, to be held against the
            whole of `ledger`; None where it does not tell.
    """

    predicted: DeviceMemory
    ledger: DeviceMemory
    touched: int
    measured: int | None
    peak: int
    budget: int | None
    driver: int | None = None

    @property
    def kept_to_budget(self) -> bool:
        """True unless somebody knows of a moment at which more was held."""
        return self.budget is None or max(self.peak, self.driver or 0) <= self.budget

    @property
    def off(self) -> float:
        """Error of the prediction, as a share of what the ledger holds."""
        return _share(self.predicted.total, self.ledger.total)

    @property
    def ledger_off(self) -> float | None:
        """Error of the ledger, as a share of what the system counts.

        None where nobody tells, or nothing is held.
        """
        return _share(self.touched, self.measured) if self.measured and self.touched else None


def memory_uses(
    plan: Plan,
    ledgers: Collection[Ledger],
    compared: Mapping[str, MemoryComparison],
    driver: Mapping[str, int],
) -> dict[str, MemoryUse]:
    """Return the memory use of every device that has a ledger, the CPU first."""
    uses = {}
    for ledger in sorted(ledgers, key=lambda ledger: (ledger.device != CPU, ledger.device)):
        device, found = ledger.device, compared.get(ledger.device)
        uses[device] = MemoryUse(
            predicted=plan.on(device),
            ledger=as_planned(device, ledger.lines()),
            touched=touched(ledger),
            measured=None if found is None else found.measured,
            peak=ledger.peak,
            budget=ledger.budget,
            driver=driver.get(device),
        )
    return uses


def _share(value: int, of: int) -> float:
    return (value - of) / of if of else float(value != of)
