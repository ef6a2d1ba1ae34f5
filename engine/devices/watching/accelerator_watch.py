"""What every accelerator is doing, put together from NVIDIA's library, /sys and torch's counters.

A sample takes a few tenths of a millisecond of processor time, and much less where there is no
accelerator. Nothing here imports torch: its counters are read once somebody else has imported it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.devices.accelerators.torch_devices import held_by_torch
from engine.devices.watching.watch_amd import AmdWatch
from engine.devices.watching.watch_nvml import NvmlWatch
from engine.devices.watching.watch_simulated import SimulatedWatch
from engine.events import AcceleratorSample
from engine.language import tr
from engine.machine.facts import Accelerator, Machine, Missing, Vendor
from engine.machine.system_files import SystemFiles

if TYPE_CHECKING:
    from engine.backend.simulated.device import SimulatedDevice

_log = logging.getLogger(__name__)


class AcceleratorWatch:
    """Samples all accelerators. Used by one thread; `learn` may be called from another.

    Args:
        files: /proc and /sys.
        simulated: the simulated accelerator that is open.
    """

    def __init__(
        self,
        files: SystemFiles | None = None,
        simulated: Callable[[], SimulatedDevice | None] = lambda: None,
    ) -> None:
        files = files or SystemFiles()
        self._simulated = SimulatedWatch(simulated)
        self._known: tuple[Accelerator, ...] = ()
        self._nvidia = NvmlWatch(files, lambda bus: self._in_use(bus, Vendor.NVIDIA))
        self._amd = AmdWatch(files, lambda bus: self._in_use(bus, Vendor.AMD))
        self._complained = False

    def learn(self, machine: Machine) -> None:
        """Take the names that plans give to accelerators from a probe."""
        self._known = tuple(one for one in machine.accelerators if not one.simulated)

    def sample(self, now: float) -> tuple[AcceleratorSample, ...]:
        """Return readings of all accelerators at a moment, seconds of any clock. Never fails."""
        try:
            driven = (*self._nvidia.sample(now), *self._amd.sample(now))
            known = {one.identity: one for one in self._known}
            named = [_named(sample, known.pop(sample.identity, None)) for sample in driven]
            others = [one for one in known.values() if one.device]
            alone = [_by_torch_alone(one) for one in others]
            return (*named, *alone, *self._simulated.sample(now))
        except Exception:  # noqa: BLE001 - a driver's oddity costs these numbers, not the thread
            if not self._complained:
                _log.exception("accelerators cannot be watched")
            self._complained = True
            return ()

    def close(self) -> None:
        """Let go of the drivers."""
        self._nvidia.close()

    def _in_use(self, bus: str, vendor: Vendor) -> bool:
        """Tell whether we compute on the card at this address; "": on any card of the vendor."""
        return any(
            bool(_held(one))
            for one in self._known
            if one.vendor is vendor and one.device and (not bus or one.bus == bus)
        )


def _held(known: Accelerator) -> int | None:
    torch = sys.modules.get("torch")
    return None if torch is None else held_by_torch(torch, known.device)


def _named(sample: AcceleratorSample, known: Accelerator | None) -> AcceleratorSample:
    if known is None:
        return sample
    ours = sample.memory_ours
    if ours is None and known.device:
        ours = _held(known)
    return replace(sample, device=known.device, name=known.name, memory_ours=ours)


def _by_torch_alone(known: Accelerator) -> AcceleratorSample:
    """Return a sample of Intel's or Apple's: without special rights only our own share is known."""
    reason = tr("the system does not tell how busy it is")
    return AcceleratorSample(
        device=known.device,
        name=known.name,
        memory_ours=_held(known),
        memory_total=known.memory_total,
        identity=known.identity,
        missing=(Missing("percent", reason),),
    )
