"""What the machine is doing, sampled twice a second on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter

import psutil

from engine.devices.host import host_memory
from engine.devices.watching.accelerator_watch import AcceleratorWatch
from engine.events import DeviceSample
from engine.machine.cores import available_threads
from engine.machine.facts import Machine

INTERVAL_S = 0.5


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
