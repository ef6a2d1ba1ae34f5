"""A load that was planned, and the plan as events tell it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from engine.commands import ALL_LAYERS, Load, Mode
from engine.errors import OutOfMemory
from engine.events import PlanSummary, WayOut
from engine.language import sentences
from engine.loading.alternatives import LoadFacts, alternatives
from engine.loading.inspected_model import InspectedModel
from engine.loading.inspection import Inspection, ModelText
from engine.machine.facts import CPU, Machine
from engine.machine.speeds import Speeds
from engine.plan.facts import ModelFacts, Wish, usual_draft
from engine.plan.plan import Plan
from engine.plan.planner import Planning
from engine.plan.reasons import caveat

UNKNOWN = Speeds({})


@dataclass(frozen=True, slots=True)
class PlannedLoad:
    """Models that were looked at, and where each of their parts is to lie.

    Attributes:
        planning: the planner's question; answers for other ceilings as well.
        summary: the plan in the words of events; its signature is known when the model is built.
    """

    inspection: Inspection
    planning: Planning
    plan: Plan
    summary: PlanSummary

    @property
    def draft(self) -> InspectedModel | None:
        """The draft model, where the plan uses it."""
        return _draft(self.inspection, self.plan)

    @property
    def facts(self) -> tuple[ModelFacts, ...]:
        """The planner's view of the models that take part."""
        models = (self.inspection.target, self.draft)
        return tuple(model.facts for model in models if model is not None)


def plan_load(
    command: Load, machine: Machine, speeds: Speeds = UNKNOWN, known: ModelText | None = None
) -> PlannedLoad:
    """Look at the files of a load, and plan it.

    Args:
        command: what to load.
        machine: what it may be loaded on, memory as it is once the present model is gone.
        speeds: of that machine.
        known: the text of the present model, used again where it is the same.

    Raises:
        UserFixable: as `Inspection.of` and `plan_inspected`.
    """
    return plan_inspected(Inspection.of(command, machine, known), speeds)


def plan_inspected(inspection: Inspection, speeds: Speeds) -> PlannedLoad:
    """Plan a load whose files were looked at.

    Raises:
        OutOfMemory: nothing fits; with what would.
        UserFixable: the wish cannot be met on this machine.
    """
    planning = planning_of(inspection, speeds)
    try:
        plan = planning.plan()
    except OutOfMemory as error:
        error.ways_out = loads_that_fit(inspection, speeds)
        raise
    summary = _summary(inspection, plan, measured=speeds.measured)
    return PlannedLoad(inspection, planning, plan, summary)


def _draft(inspection: Inspection, plan: Plan) -> InspectedModel | None:
    return None if plan.draft is None else inspection.drafts[plan.draft]


def _summary(inspection: Inspection, plan: Plan, *, measured: bool) -> PlanSummary:
    model, machine, template = inspection.target, inspection.machine, inspection.text.template
    target, draft = model.facts, _draft(inspection, plan)
    sources = [] if draft is None else [draft.model.name]
    sources += ["lookup"] if plan.lookup else []
    devices = dict.fromkeys(share.device for share in plan.target if share.blocks)
    return PlanSummary(
        mode=plan.mode,
        target_device=" + ".join(_names(devices, machine)),
        draft_device=next(_names([plan.draft_device or CPU], machine)) if sources else None,
        draft=" + ".join(sources) or None,
        context=plan.context,
        signature="",
        reasons=plan.reasons,
        target_bytes=sum(memory.target for memory in plan.memory),
        kv_bytes=sum(memory.kv for memory in plan.memory),
        can_think=template.can_think,
        continues=template.missing,
        context_limit=target.max_positions,
        caveat=sentences(caveat(target), template.caveat),
        layers=len(target.footprint.blocks),
        layers_on_gpu=plan.layers_on_gpu,
        tokens_per_s=plan.tokens_per_s,
        memory=plan.memory,
        knee=plan.knee,
        measured=measured,
        draft_is_head=draft is not None and draft.fusion is not None,
        embedding_on_gpu=plan.embedding_on_gpu,
        head_on_gpu=plan.head_on_gpu,
        kv=target.footprint.kv,
        sampling=model.model.sampling(),
        has_mtp=model.model.has_mtp,
    )


def planning_of(inspection: Inspection, speeds: Speeds, mode: Mode | None = None) -> Planning:
    """Return the planner's question for a load; `mode`: instead of the one that was asked for.

    Raises:
        UserFixable: the wish cannot be met on this machine.
    """
    command = inspection.command
    return planning_for(
        command if mode is None else replace(command, mode=mode),
        inspection.target.facts,
        [draft.facts for draft in inspection.drafts],
        inspection.machine,
        speeds,
    )


def planning_for(
    command: Load,
    target: ModelFacts,
    drafts: Sequence[ModelFacts],
    machine: Machine,
    speeds: Speeds,
    acceptance: float | None = None,
) -> Planning:
    """Return the planner's question, from which plans for any ceiling come.

    Args:
        command: what was asked for.
        target: the model that answers.
        drafts: models that may draft; left out where nothing can or shall be drafted.
        machine: where.
        speeds: of that machine.
        acceptance: the probability that a drafted token is accepted; None: what is usual.

    Raises:
        UserFixable: the wish cannot be met on this machine.
    """
    drafting = command.mode is not Mode.PLAIN and not target.other_family
    layers = command.layers_on_gpu
    named = command.device not in (None, CPU) and command.mode in (Mode.AUTO, Mode.PLAIN)
    if layers is None and named:  # who names a device wants the model there
        layers = ALL_LAYERS
    wish = Wish(
        command.mode,
        command.context,
        drafting and command.allows_lookup,
        command.forces_drafting,
        vram=command.vram,
        layers_on_gpu=len(target.footprint.blocks) if layers == ALL_LAYERS else layers,
        threads=command.threads,
        parallel=command.mode in (Mode.AUTO, Mode.DUO),
        kv=command.kv,
    )
    candidates = [usual_draft(draft, acceptance) for draft in drafts] if drafting else []
    return Planning(machine, speeds, target, candidates, wish)


def loads_that_fit(inspection: Inspection, speeds: Speeds) -> tuple[WayOut, ...]:
    """Return loads of the same files that fit where this one does not."""
    target, usable = inspection.target.facts, inspection.machine.usable
    facts = LoadFacts(
        layers=len(target.footprint.blocks),
        longest=target.max_positions,
        formats=inspection.target.smaller_formats,
        device=usable[0].name if usable else "",
        smaller_kv=inspection.target.has_kv_choice,
    )

    def plan_for(load: Load) -> Plan:
        return planning_of(inspection.changed_to(load), speeds).plan()

    return alternatives(inspection.command, facts, plan_for)


def _names(devices: Iterable[str], machine: Machine) -> Iterator[str]:
    """Devices as people call them, the processor "CPU"."""
    found = {accelerator.device: accelerator.name for accelerator in machine.accelerators}
    return (found.get(device, device.upper()) for device in devices)
