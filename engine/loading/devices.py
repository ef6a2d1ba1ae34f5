"""Devices this process computes on: which are here, how fast they are, which were lost."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import chain

from engine.backend.cpu import CpuDevice, threads_for
from engine.backend.device import Device
from engine.backend.native.matrix import NATIVE_KINDS
from engine.backend.real_device import open_accelerator
from engine.backend.segment import Share
from engine.backend.simulated.device import SimulatedDevice, threads_beside_it
from engine.backend.simulated.spec import (
    SimulatedSpec,
    simulated_accelerator,
    simulated_speeds,
)
from engine.backend.webgpu.adapters import is_installed
from engine.commands import Mode
from engine.devices.accelerators.adapter_checks import AdapterCheck, AdapterChecks
from engine.devices.accelerators.webgpu_adapters import with_adapters
from engine.devices.kept_estimates import KeptEstimates
from engine.devices.kept_measurements import KeptLearnt, KeptReached, KeptSpeeds
from engine.devices.probe import probe_host, probe_machine
from engine.errors import Absent
from engine.language import tr
from engine.machine.cores import default_threads
from engine.machine.facts import CPU, WEBGPU, Accelerator, Machine
from engine.machine.speeds import Speeds
from engine.plan.facts import ModelFacts
from engine.plan.plan import Plan

_log = logging.getLogger(__name__)

Progress = Callable[[str, float], None]
IsCancelled = Callable[[], bool]
Devices = Mapping[str, Device]
"""Opened devices by name; the CPU is always among them."""


class DeviceManager:
    """Looks at this machine, measures it, and opens its devices for loads.

    Args:
        cancelled: whether the user has stopped what is being done; devices that wait ask it.
    """

    def __init__(self, cancelled: IsCancelled = lambda: False) -> None:
        self._cancelled = cancelled
        self._lost: set[str] = set()
        self._simulated: Callable[[], SimulatedDevice | None] = lambda: None
        self._kept = KeptSpeeds()
        self._adapters = AdapterChecks()
        self.estimates = KeptEstimates()
        """Memory that models held before; later plans go by it."""
        self.learnt = KeptLearnt()
        """Knowledge of controllers about pairs, from earlier starts."""
        self.reached = KeptReached()
        """Speeds of answers by placement; later plans go by them."""

    def simulated(self) -> SimulatedDevice | None:
        """The simulated accelerator that a load has opened, as long as it is in use."""
        return self._simulated()

    def look(
        self,
        simulate_gpu: int | None = None,
        device: str | None = None,
        *,
        adapters: bool = False,
    ) -> Machine:
        """Return what is here now.

        Args:
            simulate_gpu: bytes of a simulated accelerator that takes the place of real ones.
            device: the accelerator to use, by name, and no other; None: whichever is of use.
            adapters: list software adapters too, and look for adapters now if nobody ever has.

        Raises:
            Absent: there is no device of that name.
        """
        if simulate_gpu is None:
            machine = probe_machine()
            adapters = adapters or (device is not None and device.startswith(WEBGPU))
            if is_installed() and (adapters or machine.accelerators):
                check = self._check(machine, make=adapters)
                listed = with_adapters(machine.accelerators, machine.host, check)
                machine = replace(machine, accelerators=listed, untried=check is None)
        else:
            machine = Machine(probe_host(), (self._simulation(simulate_gpu),))
        if device is not None:
            machine = with_device(machine, device)
        usable = tuple(map(self._unless_lost, machine.accelerators))
        machine = self.estimates.apply(replace(machine, accelerators=usable))
        return replace(machine, reached=self.reached.find(machine))

    def _check(self, machine: Machine, *, make: bool) -> AdapterCheck | None:
        """Return what WebGPU has found with these cards and drivers; `make`: look if it has not."""
        check = self._adapters.find(machine.accelerators)
        if check is None and make:
            check = self._adapters.make(machine.accelerators, self._cancelled)
        return check

    def speeds(self, machine: Machine) -> Speeds:
        """Return what was measured here, and what simulated accelerators declare.

        With cards that WebGPU was not tried on, not all is measured yet.
        """
        found = self._kept.find(machine, default_threads()) or Speeds({})
        if machine.untried:
            found = replace(found, measured=False)
        return _with_declared(found, machine)

    def measure(self, progress: Progress, cancelled: IsCancelled) -> Speeds:
        """Try adapters and measure this machine, for the plans of later loads.

        Raises:
            Cancelled: the user wants something else.
        """
        present = self._simulated()
        if present is None:
            self.try_adapters(progress, cancelled)
        machine = self.look(present.spec.memory if present is not None else None)
        return self.measure_all(machine, progress, cancelled)

    def try_adapters(self, progress: Progress, cancelled: IsCancelled) -> None:
        """Have WebGPU tried anew on the cards of this machine, if it has any.

        Raises:
            Cancelled: the user wants something else.
        """
        cards = probe_machine().accelerators
        if cards and is_installed():
            progress(tr("Trying GPUs through WebGPU"), 0.0)
            self._adapters.make(cards, cancelled)

    def measure_all(self, machine: Machine, progress: Progress, cancelled: IsCancelled) -> Speeds:
        """Measure a machine that `look` has found.

        Raises:
            Cancelled: the user wants something else.
        """
        from engine.devices.calibration.calibrate import calibrate

        speeds = calibrate(machine, progress=progress, cancelled=cancelled)
        self._kept.keep(machine, default_threads(), speeds)
        return _with_declared(speeds, machine)

    def complete(self, machine: Machine, speeds: Speeds, models: Iterable[ModelFacts]) -> Speeds:
        """Measure the types of weights that these models have, where all else is measured.

        Raises:
            Cancelled: the user wants something else.
        """
        if not speeds.measured:
            return speeds
        held = chain.from_iterable(
            model.footprint.main_kinds for model in models if not model.other_family
        )
        known = speeds.devices[CPU].products
        kinds = [kind for kind in dict.fromkeys(held) if kind in NATIVE_KINDS and kind not in known]
        if not kinds:
            return speeds
        from engine.devices.calibration.calibrate import calibrate_kinds

        measured = self._kept.find(machine, default_threads()) or speeds
        more = calibrate_kinds(measured, kinds, machine, cancelled=self._cancelled)
        self._kept.keep(machine, default_threads(), more)
        return _with_declared(more, machine)

    def lose(self, device: str) -> None:
        """Leave a lost device out of all later plans."""
        self._lost.add(device)

    def open(self, machine: Machine, plan: Plan) -> Devices:
        """Open a plan's devices, and the CPU in any case, each with the plan's budget.

        Raises:
            UserFixable: one cannot be used.
        """
        memory, accelerator = plan.on(CPU), _found(machine, plan.accelerator)
        threads = plan.threads or threads_for(max(memory.target, memory.draft))
        if accelerator is None:
            return {CPU: CpuDevice(memory.budget, threads)}
        if plan.mode is Mode.DUO:  # the engine's thread drives the accelerator at the same time
            threads = min(threads, threads_for(memory.draft), threads_beside_it())
        return {
            CPU: CpuDevice(memory.budget, threads),
            accelerator.device: self._opened(accelerator, plan.on(accelerator.device).budget),
        }

    def _opened(self, found: Accelerator, budget: int) -> Device:
        if found.simulated:
            device = SimulatedDevice(_declared(found), budget)
            device.take_by_others((found.memory_total or 0) - (found.memory_free or 0))
            device.processor.interrupted = self._cancelled
            self._simulated = weakref.ref(device)
            return device
        return open_accelerator(found.device, budget, found.name)

    def _simulation(self, memory: int) -> Accelerator:
        """Return the simulated accelerator that is open, or a new one of this memory."""
        present = self._simulated()
        if present is not None and present.spec.memory == memory:
            return present.accelerator
        return simulated_accelerator(memory)

    def _unless_lost(self, found: Accelerator) -> Accelerator:
        if found.device not in self._lost:
            return found
        reason = tr("it stopped working; starting Duotail again may help")
        return replace(found, unusable=reason)


def with_device(machine: Machine, name: str) -> Machine:
    """Return the machine with one device by name in use, and no other accelerator.

    Raises:
        Absent: there is no such device.
    """
    if name != CPU and _found(machine, name) is None:
        raise Absent(
            tr("There is no device {name} on this computer.").format(name=name),
            tr("`duotail hardware` lists the devices."),
        )
    other = tr("another device was chosen by name")
    chosen = tuple(
        replace(each, unusable="" if each.by_name else each.unusable, by_name=False, chosen=True)
        if each.device == name
        else replace(each, unusable=each.unusable or other)
        for each in machine.accelerators
    )
    return replace(machine, accelerators=chosen)


def whole(layers: int, device: str) -> tuple[Share, ...]:
    """Return the shares of a model in one piece."""
    return (Share(device, range(layers), embeds=True, heads=True),)


def close(devices: Devices) -> None:
    """Give back what the devices hold; call it after dropping what lies on them."""
    for device in devices.values():
        try:
            device.close()
        except Exception:  # noqa: BLE001 - a lost device has nothing to give
            _log.warning("%s was not closed", device.name, exc_info=True)


def _found(machine: Machine, device: str | None) -> Accelerator | None:
    return next((found for found in machine.accelerators if found.device == device), None)


def _with_declared(speeds: Speeds, machine: Machine) -> Speeds:
    """Add what simulated accelerators declare."""
    devices, links = dict(speeds.devices), dict(speeds.links)
    for found in machine.usable:
        if found.simulated:
            devices[found.device], links[found.device] = simulated_speeds(_declared(found))
    return replace(speeds, devices=devices, links=links)


def _declared(simulated: Accelerator) -> SimulatedSpec:
    return SimulatedSpec.of(simulated.memory_total or 0)
