"""What a device holds: as planned, by its ledger, and as the system sees it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from engine.backend.ledger import Held, Ledger, Purpose
from engine.hardware.memory import own_memory
from engine.plan.machine import CPU
from engine.plan.plan import DeviceMemory, Plan


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes on one device.

    Attributes:
        predicted: by the plan.
        ledger: the same purposes, by the allocators.
        touched: what of that the system has handed out by now; caches grow into the rest.
        measured: by how much our process has grown since before the models came, as the system
            counts; None where nobody tells.
    """

    predicted: DeviceMemory
    ledger: DeviceMemory
    touched: int
    measured: int | None

    @property
    def off(self) -> float:
        """How far the prediction is from the ledger, as a share of that."""
        return _share(self.predicted.total, self.ledger.total)

    @property
    def ledger_off(self) -> float | None:
        """How far the ledger is from what the system counts, as a share of that."""
        return None if self.measured is None else _share(self.touched, self.measured)


class MemoryWatch:
    """Remembers what the process held before the models came."""

    def __init__(self) -> None:
        self._before = own_memory()

    def uses(self, plan: Plan, ledgers: Collection[Ledger]) -> dict[str, MemoryUse]:
        """Of every device that has a ledger or a part in the plan, the CPU first."""
        grown, held = self._grown(), {own.device: own.lines() for own in ledgers}
        elsewhere = sum(_touched(lines) for device, lines in held.items() if device != CPU)
        uses = {}
        for device in sorted(held, key=lambda device: (device != CPU, device)):
            # What is simulated lies in the memory of the process as well.
            measured = grown - elsewhere if device == CPU and grown is not None else None
            uses[device] = MemoryUse(
                predicted=plan.on(device),
                ledger=as_planned(device, held[device]),
                touched=_touched(held[device]),
                measured=measured,
            )
        return uses

    def _grown(self) -> int | None:
        now = own_memory()
        return None if now is None or self._before is None else now - self._before


def as_planned(device: str, lines: Sequence[Held], budget: int = 0) -> DeviceMemory:
    """A ledger's lines, sorted as plans sort them."""
    sums = dict.fromkeys(("target", "draft", "kv", "workspace", "runtime"), 0)
    for line in lines:
        sums[line.owner if line.purpose is Purpose.WEIGHTS else _PLANNED[line.purpose]] += (
            line.nbytes
        )
    return DeviceMemory(device, budget, **sums)


_PLANNED = {
    Purpose.KV: "kv",
    Purpose.FEATURES: "kv",
    Purpose.WORKSPACE: "workspace",
    Purpose.RUNTIME: "runtime",
}


def _touched(lines: Sequence[Held]) -> int:
    return sum(line.touched for line in lines)


def _share(value: int, of: int) -> float:
    return (value - of) / of if of else float(value != of)
