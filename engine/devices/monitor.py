"""What the machine is doing, sampled twice a second on a thread of its own.

A sample takes a few tenths of a millisecond of processor time, and much less where there is no
accelerator. Nothing here imports torch: its counters are read once somebody else has imported it.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

import psutil

from engine.devices.accelerators.torch_devices import held_by_torch
from engine.devices.card_watch import AmdWatch, NvmlWatch
from engine.devices.holders import simulated_holder
from engine.devices.probe import host_memory
from engine.events import AcceleratorSample, DeviceSample
from engine.language import tr
from engine.machine.cores import available_threads
from engine.machine.facts import Accelerator, Machine, Missing, Vendor
from engine.machine.system_files import SystemFiles

if TYPE_CHECKING:  # it brings the native library along, which the window does not wait for
    from engine.backend.simulated.device import SimulatedDevice

INTERVAL_S = 0.5

_log = logging.getLogger(__name__)


class DeviceMonitor:
    """Emits a DeviceSample every half second until closed.

    A number that cannot be had is None in it. A card that disappears has no numbers until it is
    back; drivers that fail are tried again every half minute, never in a hurry.
    """

    def __init__(
        self, emit: Callable[[DeviceSample], None], watch: AcceleratorWatch | None = None
    ) -> None:
        self._emit = emit
        self._watch = watch or AcceleratorWatch()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="device-monitor", daemon=True)
        self._thread.start()

    def learn(self, machine: Machine) -> None:
        """Call accelerators as plans do, from the next sample on. To be told after every probe."""
        self._watch.learn(machine)

    def close(self) -> None:
        """Stop sampling and wait for the thread."""
        self._closing.set()
        self._thread.join(timeout=2 * INTERVAL_S)

    def _run(self) -> None:
        process = psutil.Process()
        threads, memory = available_threads(), host_memory()
        total = None if memory is None else memory.total
        # The first reading only sets the start of the interval.
        process.cpu_percent()
        psutil.cpu_percent()
        while not self._closing.wait(INTERVAL_S):
            try:
                used, held = process.cpu_percent() / threads, process.memory_info().rss
            except psutil.Error:
                used, held = None, None
            accelerators, now = self._watch.sample(perf_counter()), host_memory()
            self._emit(
                DeviceSample(
                    at=perf_counter(),
                    cpu_percent=used,
                    system_cpu_percent=psutil.cpu_percent(),
                    memory_bytes=held,
                    memory_total_bytes=total,
                    accelerators=accelerators,
                    memory_available_bytes=None if now is None else now.available,
                )
            )
        self._watch.close()


class AcceleratorWatch:
    """Samples all accelerators by NVIDIA's library, /sys and torch's counters.

    Used by one thread; `learn` may be called from another.

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
        """Take the names that plans give to accelerators from a probe; each card's first."""
        known = (one for one in machine.accelerators if not one.simulated)
        self._known = tuple(one for one in known if one.identity == one.card)

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
    if torch is None or known.webgpu:
        return None
    return held_by_torch(torch, known.device)


def _named(sample: AcceleratorSample, known: Accelerator | None) -> AcceleratorSample:
    if known is None:
        return sample
    ours = sample.memory_ours
    if ours is None and known.device:
        ours = _held(known)
    return replace(sample, device=known.device, name=known.name, memory_ours=ours)


def _by_torch_alone(known: Accelerator) -> AcceleratorSample:
    """Return a sample of Intel's or Apple's: without special rights only our own share is known."""
    reason = tr("the system does not report its load")
    return AcceleratorSample(
        device=known.device,
        name=known.name,
        memory_ours=_held(known),
        memory_total=known.memory_total,
        identity=known.identity,
        missing=(Missing("percent", reason),),
    )


class SimulatedWatch:
    """Samples the simulated accelerator that is open.

    Args:
        device: that one; None while none is open.
    """

    def __init__(self, device: Callable[[], SimulatedDevice | None]) -> None:
        self._device = device
        self._before: tuple[float, float] | None = None
        """Moment of the last sample, and seconds of work until then."""

    def sample(self, now: float) -> tuple[AcceleratorSample, ...]:
        """Return its sample; nothing while none is open. The first one has no percent."""
        device = self._device()
        if device is None:
            self._before = None
            return ()
        facts, held, busy = device.accelerator, device.ledger.held, device.processor.busy_s
        before, self._before = self._before, (now, busy)
        percent = None
        if before is not None and before[0] < now and before[1] <= busy:
            percent = min(100 * (busy - before[1]) / (now - before[0]), 100.0)
        return (
            AcceleratorSample(
                device=facts.device,
                name=facts.name,
                percent=percent,
                memory_used=held + (facts.memory_of_others or 0),
                memory_ours=held,
                memory_total=facts.memory_total,
                identity=facts.identity,
                simulated=True,
                holders=simulated_holder(facts.memory_of_others or 0),
            ),
        )
