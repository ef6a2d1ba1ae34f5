"""What this process computes on: what is here, how fast it is, what of it was lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from engine.backend.cpu import CpuDevice, threads_for
from engine.backend.device import Device
from engine.hardware.probe import probe_machine
from engine.language import tr
from engine.placing import Devices
from engine.plan.machine import CPU, Accelerator, Machine
from engine.plan.plan import Plan
from engine.plan.speeds import Speeds

Progress = Callable[[str, float], None]
Cancelled = Callable[[], bool]


class Machinery:
    """Looks at this machine, measures it, and opens its devices for loads.

    Args:
        cancelled: whether the user has stopped what is being done; devices that wait ask it.
    """

    def __init__(self, cancelled: Cancelled = lambda: False) -> None:
        self._cancelled = cancelled
        self._lost: set[str] = set()

    def look(self, simulate_gpu: int | None = None) -> Machine:
        """What is here now.

        Args:
            simulate_gpu: bytes of a simulated accelerator that takes the place of real ones.
        """
        machine = probe_machine()
        found = machine.accelerators if simulate_gpu is None else ()
        return replace(machine, accelerators=tuple(map(self._without_lost, found)))

    def speeds(self, machine: Machine) -> Speeds:
        """As they were measured here, or as they are assumed."""
        return Speeds({})

    def measure(self, progress: Progress, cancelled: Cancelled) -> Speeds:
        """Measure this machine, for the plans of later loads.

        Raises:
            Cancelled: the user wants something else.
        """
        raise NotImplementedError

    def lose(self, device: str) -> None:
        """Plan without it from now on."""
        self._lost.add(device)

    def open(self, machine: Machine, plan: Plan) -> Devices:
        """Open a plan's devices, and the CPU in any case, each with the plan's budget.

        Raises:
            UserFixable: one cannot be used.
        """
        memory = plan.on(CPU)
        threads = plan.threads or threads_for(memory.target)
        devices: dict[str, Device] = {CPU: CpuDevice(memory.budget, threads)}
        return devices

    def _without_lost(self, found: Accelerator) -> Accelerator:
        if found.device not in self._lost:
            return found
        reason = tr("It stopped working; start Duotail again to use it.")
        return replace(found, unusable=reason)
