"""What a load would come to: planned beside the engine's thread, while that writes or loads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

from engine.commands import Load, Mode
from engine.errors import OutOfMemory, UserFixable
from engine.events import Previewed
from engine.events.curve import Curve
from engine.loading.devices import DeviceManager
from engine.loading.inspection import Inspection
from engine.loading.load import LoadedPair
from engine.loading.planned_load import plan_inspected, planning_of
from engine.machine.facts import Machine
from engine.machine.speeds import Speeds
from engine.service.newest_question import NewestQuestion
from engine.service.refusal import refused


class Previewer(NewestQuestion[Load, Previewed]):
    """Answers `Preview`.

    Args:
        emit: takes the answers; called from the previewer's thread.
        manager: of the devices.
        pair: the loaded pair in force, whose memory would come back.
    """

    def __init__(
        self,
        emit: Callable[[Previewed], None],
        manager: DeviceManager,
        pair: Callable[[], LoadedPair | None],
    ) -> None:
        super().__init__(emit, "previewer")
        self._manager, self._pair = manager, pair

    def answer(self, question: Load) -> Previewed:
        """Plan a load, and what every ceiling of graphics memory would give."""
        machine = self._manager.look(question.simulate_gpu)
        pair, known = self._pair(), None
        if pair is not None:
            machine, known = pair.machine_without_it(machine), pair.text
        del pair  # its weights must be free to go meanwhile
        speeds = self._manager.speeds(machine)
        curves: tuple[Curve, ...] = ()
        try:
            inspection = Inspection.of(question, machine, known)
            try:
                planned = plan_inspected(inspection, speeds)
            except OutOfMemory:
                curves = _curves(inspection, question.mode, speeds)
                raise
        except UserFixable as error:
            refusal = refused(error, machine)
            return Previewed(perf_counter(), question, machine, None, curves, refusal, speeds)
        curves = _curves(_with_draft(inspection, machine), question.mode, speeds)
        return Previewed(perf_counter(), question, machine, planned.summary, curves, speeds=speeds)


def _with_draft(inspection: Inspection, machine: Machine) -> Inspection:
    """With the draft that other modes than plain would have."""
    if inspection.command.mode is not Mode.PLAIN:
        return inspection
    try:
        automatic = replace(inspection.command, mode=Mode.AUTO)
        return Inspection.of(automatic, machine, inspection.text)
    except UserFixable:
        return inspection


def _curves(inspection: Inspection, first: Mode, speeds: Speeds) -> tuple[Curve, ...]:
    """Of all modes that are possible at all."""
    found = []
    for mode in sorted(Mode, key=lambda mode: mode is not first):
        try:
            found.append(planning_of(inspection, speeds, mode).curve())
        except OutOfMemory as error:
            layers = len(inspection.target.facts.footprint.blocks)
            found.append(Curve(mode, (), 0, 0, layers, 0, str(error)))
        except UserFixable:
            continue
    return tuple(found)
