"""Memory that the loaded model holds: told after every load and answer, compared with the plan.

Telling takes the ledgers' word, which is a matter of microseconds. The system is asked for its own
count, and everything written down, in a thread of the book's own.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from time import perf_counter, time

from engine.backend.ledger import Held, Ledger, Purpose
from engine.devices.kept_estimates import (
    DeviceEstimate,
    KeptEstimates,
    LoadEstimate,
    ModelEstimates,
    identity_of,
)
from engine.devices.memory import MemoryWatch, held_by_driver, touched
from engine.events import DeviceHeld, HeldLine, MemoryHeld
from engine.loading.load import LoadedPair
from engine.loading.planned_load import PlannedLoad
from engine.machine.facts import CPU, Machine, Vendor
from engine.machine.memory import DeviceMemory

_log = logging.getLogger(__name__)

_SHARED = "device"
"""Owner of what all models on a device share, which counts as the device's own."""
_MOST_SOFTWARE = 1.5
"""Bytes a driver counts beyond the ledger are its own software's, up to so much of the runtime."""


@dataclass(slots=True)
class _Subject:
    """A load that is being followed. Holds no model: what is dropped has to be freed.

    `system`, `software`: by device, what was counted there; filled by the book's thread.
    """

    machine: Machine
    ledgers: Mapping[str, Ledger]
    kept: ModelEstimates
    estimate: LoadEstimate
    system: dict[str, int] = field(default_factory=dict)
    software: dict[str, int] = field(default_factory=dict)


class MemoryBook:
    """Follows the pairs of one engine, from whose thread it is called.

    Args:
        emit: takes what is told.
        kept: where estimates are.
    """

    def __init__(self, emit: Callable[[MemoryHeld], None], kept: KeptEstimates) -> None:
        self._emit, self._kept = emit, kept
        self._watch: MemoryWatch | None = None
        self._subject: _Subject | None = None
        self._due: SimpleQueue[tuple[_Subject, LoadEstimate] | None] = SimpleQueue()
        self._closed = False
        self._thread: threading.Thread | None = None

    def before_load(self) -> None:
        """Remember what the process holds before the first model."""
        if self._watch is None:
            self._watch = MemoryWatch()

    def loaded(self, planned: PlannedLoad, pair: LoadedPair) -> None:
        """A new pair is in memory."""
        plan, machine = planned.plan, planned.inspection.machine
        models = planned.planning.models
        target, draft = planned.inspection.target.facts, planned.draft
        ledgers = {name: pair.devices[name].ledger for name in _in_order(pair.devices)}
        devices = tuple(
            _estimate(machine, plan.on(name), ledger)
            for name, ledger in ledgers.items()
            if ledger.held or plan.on(name).total
        )
        drafting = "" if draft is None else draft.facts.name
        kept = ModelEstimates(models, target.name, drafting, target.footprint.words, ())
        estimate = LoadEstimate(time(), str(plan.mode), plan.context, devices)
        self._subject = _Subject(machine, ledgers, kept, estimate)
        self._write(self._subject)

    def answered(self, tokens: int) -> None:
        """Take note of a written answer; `tokens`: length of its conversation by now."""
        subject = self._subject
        if subject is None:
            return
        before = subject.estimate
        after = replace(
            before,
            answers=before.answers + 1,
            tokens=max(before.tokens, tokens),
            devices=tuple(_grown(each, subject.ledgers[each.device]) for each in before.devices),
        )
        subject.estimate = after
        grown = [each.held for each in before.devices] != [each.held for each in after.devices]
        if grown or after.answers.bit_count() == 1:  # 1, 2, 4, 8, ...
            self._write(subject)

    def tell(self) -> None:
        """Say what is held now."""
        subject = self._subject
        if subject is None:
            self._emit(MemoryHeld(perf_counter(), ()))
            return
        predicted = {each.device: each.predicted for each in subject.estimate.devices}
        devices = tuple(
            DeviceHeld(name, ledger.budget, tuple(map(_line, ledger.lines())), predicted.get(name))
            for name, ledger in subject.ledgers.items()
        )
        known = self._with_others(subject.kept, subject.estimate)
        self._emit(MemoryHeld(perf_counter(), devices, known.typical_error))

    def unloaded(self) -> None:
        """Nothing is in memory any more."""
        self._subject = None

    def close(self, timeout: float) -> None:
        """Write down what is due, and end the thread."""
        self._closed = True
        self._due.put(None)
        if self._thread is not None:
            self._thread.join(timeout)

    def _with_others(self, kept: ModelEstimates, newest: LoadEstimate) -> ModelEstimates:
        """Add the loads before this one."""
        known = self._kept.find(kept.models)
        before = () if known is None else known.loads
        others = tuple(load for load in before if load.at != newest.at)
        return replace(kept, loads=(newest, *others))

    # ---- in a thread of its own --------------------------------------------------------------

    def _write(self, subject: _Subject) -> None:
        if self._closed:
            return
        self._due.put((subject, subject.estimate))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="memory-book", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while (due := self._due.get()) is not None:
            try:
                self._keep(*due)
            except Exception:  # noqa: BLE001 - a note is missing, nothing worse
                _log.warning("an estimate was not kept", exc_info=True)

    def _keep(self, subject: _Subject, estimate: LoadEstimate) -> None:
        self._count(subject, first=not estimate.answers)
        devices = tuple(_counted(each, subject) for each in estimate.devices)
        newest = replace(estimate, devices=devices)
        self._kept.keep(self._with_others(subject.kept, newest))

    def _count(self, subject: _Subject, *, first: bool) -> None:
        """Ask the system; what a driver adds after a load is its own."""
        ledgers = list(subject.ledgers.values())
        if self._watch is not None:
            compared = self._watch.compare(ledgers)
            if CPU in compared and compared[CPU].measured > 0:
                subject.system[CPU] = compared[CPU].measured
        used = [each for each in subject.machine.usable if each.device in subject.ledgers]
        if not any(each.vendor is Vendor.NVIDIA and not each.simulated for each in used):
            return
        for device, nbytes in held_by_driver(subject.machine).items():
            if device in subject.ledgers:
                subject.system[device] = nbytes
                if first:
                    subject.software[device] = nbytes - subject.ledgers[device].held


def _in_order(devices: Mapping[str, object]) -> list[str]:
    return sorted(devices, key=lambda name: (name != CPU, name))


def _estimate(machine: Machine, predicted: DeviceMemory, ledger: Ledger) -> DeviceEstimate:
    lines, device = ledger.lines(), ledger.device
    identity, held = identity_of(machine, device), held_as_planned(device, lines)
    return DeviceEstimate(device, identity, ledger.name, predicted, held, touched(ledger))


def held_as_planned(device: str, lines: Sequence[Held]) -> DeviceMemory:
    """Return a ledger's bytes by a plan's purposes; of the workspace, the peak."""
    sums = dict.fromkeys(("target", "draft", "kv", "features", "workspace", "runtime"), 0)
    for line in lines:
        if line.owner == _SHARED or line.purpose is Purpose.RUNTIME:
            sums["runtime"] += line.nbytes
        elif line.purpose is Purpose.WEIGHTS:
            sums["draft" if line.owner == "draft" else "target"] += line.nbytes
        else:
            work = line.purpose is Purpose.WORKSPACE
            sums[line.purpose.value] += line.peak if work else line.nbytes
    return DeviceMemory(device, 0, **sums)


def _grown(before: DeviceEstimate, ledger: Ledger) -> DeviceEstimate:
    """Return the estimate after an answer: the most workspace so far, and bytes touched by now."""
    now = held_as_planned(before.device, ledger.lines()).workspace
    work = max(before.held.workspace, now)
    return replace(before, held=replace(before.held, workspace=work), touched=touched(ledger))


def _counted(told: DeviceEstimate, subject: _Subject) -> DeviceEstimate:
    """Add what the system counted."""
    held = told.held
    beyond = max(subject.software.get(told.device, 0), 0)
    most = round(_MOST_SOFTWARE * held.runtime)
    runtime = max(min(held.runtime + beyond, most), held.runtime)
    return replace(
        told, held=replace(held, runtime=runtime), system=subject.system.get(told.device)
    )


def _line(held: Held) -> HeldLine:
    return HeldLine(held.owner, str(held.purpose), held.nbytes, held.touched)
