"""Memory of our process: what the system counts of it, beside what the ledgers tell of it.

Do the allocators tell of everything they take, and does what is freed really go back?
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from engine.backend.ledger import Ledger, Purpose
from engine.devices.accelerators.nvml import Lost, Nvml, Unavailable
from engine.devices.accelerators.torch_devices import held_by_torch
from engine.machine.facts import CPU, Machine
from engine.machine.garbage import collect_garbage

_OWN = Path("/proc/self/smaps_rollup")

Counter = Callable[[], int | None]
"""Bytes that this process holds on a device, what its own software takes aside."""


def own_memory() -> int | None:
    """Bytes that this process holds.

    What it shares with others counts in parts (PSS, Linux), elsewhere not at all (USS). None where
    nobody tells.
    """
    try:
        lines = _OWN.read_text().splitlines()
    except OSError:
        return _unshared()
    found = (line.split() for line in lines if line.startswith("Pss:"))
    return next((int(kilobytes) << 10 for _, kilobytes, *_ in found), None)


def _unshared() -> int | None:
    import psutil  # the window asks for other things here before it needs it

    try:
        return int(psutil.Process().memory_full_info().uss)
    except (psutil.Error, AttributeError):
        return None


def give_memory_back() -> None:
    """Collect garbage and, where the C library keeps freed pages (glibc), hand them back."""
    collect_garbage()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none
        if trim is not None:
            trim(0)


def torch_counters(machine: Machine) -> dict[str, Counter]:
    """Return torch's own count of bytes for every accelerator that it computes on."""
    devices = (found.device for found in machine.usable if not (found.simulated or found.webgpu))
    return {device: partial(_held_by_torch, device) for device in devices}


def _held_by_torch(device: str) -> int | None:
    torch = sys.modules.get("torch")
    return held_by_torch(torch, device) if torch is not None else 0


def held_by_driver(machine: Machine) -> dict[str, int]:
    """Return the bytes that this process holds by NVIDIA's driver, contexts included.

    Comparable with whole ledgers. Devices that the driver does not report are left out.
    """
    devices = {found.identity: found.device for found in machine.usable if found.identity}
    held = {}
    try:
        with Nvml() as library:
            for card in library.cards():
                nbytes = card.held()
                if nbytes is not None and card.uuid in devices:
                    held[devices[card.uuid]] = nbytes
    except (Lost, Unavailable):
        return {}
    return held


@dataclass(frozen=True, slots=True)
class MemoryComparison:
    """Bytes that models hold on one device.

    Attributes:
        ledger: that exist by now, as its ledger says.
        measured: by which the process has grown there, as the system counts.
    """

    device: str
    ledger: int
    measured: int

    @property
    def ratio(self) -> float:
        """Share of the measured bytes that the ledger accounts for."""
        return self.ledger / self.measured if self.measured else float(self.ledger == 0)


class MemoryWatch:
    """Remembers what the process held before the models came, its code included.

    Args:
        counters: for devices with memory of their own. What others hold, as the simulated one
            does, lies in the memory of the process.
    """

    def __init__(self, counters: Mapping[str, Counter] | None = None) -> None:
        self._counters: dict[str, Counter] = {CPU: own_memory} | dict(counters or {})
        self._before = self._counts()

    def compare(self, ledgers: Collection[Ledger]) -> dict[str, MemoryComparison]:
        """Return comparisons by device, without devices whose memory nobody counts."""
        held = {ledger.device: touched(ledger) for ledger in ledgers}
        inside = sum(nbytes for device, nbytes in held.items() if device not in self._counters)
        now, found = self._counts(), {}
        for device in held.keys() & now.keys() & self._before.keys():
            grown = now[device] - self._before[device] - (inside if device == CPU else 0)
            found[device] = MemoryComparison(device, held[device], grown)
        return found

    def _counts(self) -> dict[str, int]:
        counts = {device: counter() for device, counter in self._counters.items()}
        return {device: count for device, count in counts.items() if count is not None}


def touched(ledger: Ledger) -> int:
    """Bytes of models that exist by now."""
    return sum(line.touched for line in ledger.lines() if line.purpose is not Purpose.RUNTIME)
