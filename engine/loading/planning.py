"""From a Load command to a plan, and the plan as the events tell it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.commands import ALL_LAYERS, Load, Mode
from engine.events import PlanSummary
from engine.machine.facts import CPU, Machine
from engine.machine.speeds import Speeds
from engine.plan.facts import ModelFacts, Wish, usual_draft
from engine.plan.plan import Plan
from engine.plan.planner import Planning
from engine.plan.reasons import caveat

UNKNOWN = Speeds({})


def asked(
    command: Load,
    target: ModelFacts,
    drafts: Sequence[ModelFacts],
    machine: Machine,
    speeds: Speeds,
    *,
    lookup: bool,
    forced: bool,
    acceptance: float | None = None,
) -> Planning:
    """The planner's question, from which plans for any ceiling come.

    Raises:
        UserFixable: the wish cannot be met on this machine.
    """
    layers = command.layers_on_gpu
    wish = Wish(
        command.mode,
        command.context,
        lookup,
        forced,
        vram=command.vram,
        layers_on_gpu=len(target.footprint.blocks) if layers == ALL_LAYERS else layers,
        parallel=command.mode in (Mode.AUTO, Mode.DUO),
    )
    candidates = [usual_draft(draft, acceptance) for draft in drafts]
    return Planning(machine, speeds, target, candidates, wish)


def summarise(
    plan: Plan, target: ModelFacts, draft: ModelFacts | None, machine: Machine
) -> PlanSummary:
    """The plan in the words of events; the signature is known when the model is built."""
    sources = [draft.name] if draft else []
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
        draft_bytes=sum(memory.draft for memory in plan.memory),
        kv_bytes=sum(memory.kv for memory in plan.memory),
        context_limit=target.max_positions,
        caveat=caveat(target),
        draft_is_head=draft is not None and draft.footprint.fusion is not None,
        layers=len(target.footprint.blocks),
        layers_on_gpu=plan.layers_on_gpu,
        tokens_per_s=plan.tokens_per_s,
        memory=plan.memory,
        knee=plan.knee,
        embedding_on_gpu=plan.embedding_on_gpu,
        head_on_gpu=plan.head_on_gpu,
    )


def _names(devices: Sequence[str] | dict[str, None], machine: Machine) -> Iterator[str]:
    """Devices as people call them, the processor "CPU"."""
    found = {accelerator.device: accelerator.name for accelerator in machine.accelerators}
    return (found.get(device, device.upper()) for device in devices)
