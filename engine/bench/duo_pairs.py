"""The two models of a comparison with DuoDecoding: of random weights, or from folders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.backend.decoder import Decoder
from engine.bench.answers import Wishes
from engine.bench.drafts import RandomPair
from engine.bench.duo import DuoModels
from engine.bench.forward import prompt
from engine.bench.placement import Known, Placing, build, draft_beside, plan_models
from engine.commands import Load, Mode
from engine.errors import OutOfMemory, UserFixable
from engine.language import tr
from engine.loading.decoder_builder import DecoderBuilder
from engine.loading.devices import DeviceManager, Devices, whole
from engine.loading.planned_load import PlannedLoad, plan_load
from engine.machine.facts import CPU
from engine.plan.plan import Plan
from engine.request import ChatRequest, Message, Role
from engine.session.answer import read


@dataclass(frozen=True, slots=True)
class Prepared:
    """A comparison that has been planned.

    Attributes:
        build: makes the models; takes as long as that takes.
    """

    plan: Plan
    build: Callable[[], DuoModels]


def random_lanes(
    known: Known,
    pair: RandomPair,
    wishes: Wishes,
    length: int,
    *,
    vram: int | None = None,
    threads: int | None = None,
) -> Prepared:
    """A pair of random weights.

    Args:
        known: where.
        pair: models.
        wishes: what the plan has to have room for.
        length: tokens of the prompt.
        vram: most bytes on the accelerator.
        threads: of the CPU; None: as many as there should be.

    Raises:
        Absent: there is no accelerator.
        UserFixable: it does not fit, or the draft cannot draft in parallel.
    """
    planned = plan_models(known, pair, Placing(Mode.DUO, vram), wishes)
    _check_draft(planned)

    def built() -> DuoModels:
        placed = build(planned, known[0], pair, threads)
        if placed.draft is None:
            raise _no_draft()
        accelerator = _accelerator(planned)
        return DuoModels(
            plan=planned,
            devices=placed.devices,
            target=placed.target,
            draft=placed.draft,
            there=_if_it_fits(lambda: draft_beside(pair, placed.devices[accelerator])),
            prompts=[prompt(pair.target.config.vocab_size, length)],
        )

    return Prepared(planned, built)


def stored_lanes(
    command: Load, prompts: Sequence[str], known: Known, manager: DeviceManager
) -> Prepared:
    """What a command names, as a load would place it in this mode; without the lookup draft.

    Raises:
        Absent: there is no accelerator.
        UserFixable: as a load, or there is no draft model.
    """
    machine, speeds = known
    checked = plan_load(command, machine, speeds)
    _check_draft(checked.plan)

    def built() -> DuoModels:
        devices = manager.open(machine, checked.plan)
        return _stored(checked, devices, [_ids(text, checked) for text in prompts])

    return Prepared(checked.plan, built)


def _stored(checked: PlannedLoad, devices: Devices, prompts: Sequence[Sequence[int]]) -> DuoModels:
    plan, draft = checked.plan, checked.draft
    if draft is None:
        raise _no_draft()
    models = [checked.inspection.target, draft, draft]
    build = DecoderBuilder(models, devices, lambda _stage, _part: None, lambda: False)
    context = min(plan.context, draft.facts.max_positions)
    layers = len(draft.facts.footprint.blocks)

    def draft_on(device: str) -> Decoder:
        return build.decoder(draft, context, whole(layers, device), "draft")

    return DuoModels(
        plan=plan,
        devices=devices,
        target=build.decoder(checked.inspection.target, plan.context, plan.target, "target"),
        draft=draft_on(CPU),
        there=_if_it_fits(lambda: draft_on(_accelerator(plan))),
        prompts=prompts,
        stop_ids=checked.inspection.text.tokenizer.eos_ids,
    )


def _ids(text: str, checked: PlannedLoad) -> Sequence[int]:
    request = ChatRequest("bench", (Message(Role.USER, text),))
    return read(request, checked.inspection.text.template, checked.inspection.text.tokenizer).ids


def _if_it_fits(build: Callable[[], Decoder]) -> Decoder | None:
    try:
        return build()
    except OutOfMemory:
        return None


def _accelerator(plan: Plan) -> str:
    if plan.accelerator is None:
        raise ValueError("the mode needs an accelerator")
    return plan.accelerator


def _check_draft(plan: Plan) -> None:
    if plan.mode is not Mode.DUO or plan.draft is None or plan.draft_device != CPU:
        raise _no_draft()


def _no_draft() -> UserFixable:
    return UserFixable(
        tr("No draft model can draft on the CPU here."), tr("Choose a small model as the draft.")
    )
