"""From a checked model to one that is ready to answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from traceback import clear_frames

from engine.backend.decoder import Decoder
from engine.backend.ledger import Account
from engine.backend.native.pool import default_threads
from engine.backend.state_pool import StatePool
from engine.commands import Load, Mode
from engine.events import PlanSummary
from engine.hardware.kept_learnt import KeptLearnt, pair_identity
from engine.language import tr
from engine.loading.building import Cancelled, DecoderBuilder, Progress
from engine.loading.checking import CheckedPair, ModelText
from engine.loading.keeping import KeptStates, give_room
from engine.loading.placing import Devices, OpenDevices, close, coming_back, whole
from engine.machine.facts import CPU
from engine.model.text.chat_template import ChatTemplate
from engine.model.text.tokenizer import Tokenizer
from engine.plan.plan import Plan
from engine.speculative.draft_worker import DraftLane
from engine.speculative.drafters.combined import CombinedDrafter
from engine.speculative.drafters.drafter import Drafter
from engine.speculative.drafters.feature_head import HeadDrafter
from engine.speculative.drafters.lookup import LookupDrafter
from engine.speculative.drafters.model import StandaloneDrafter
from engine.speculative.loops import Loop, Parallel, Plain, Serial
from engine.speculative.parallel_controller import ParallelController
from engine.speculative.serial_controller import SerialController


@dataclass(slots=True)
class LoadedPair:
    """Everything an answer needs, and what holds it.

    Attributes:
        loop: how answers are decoded, and what it has learnt.
        identity: of the models, their places and the machine, by which that is kept on disk.
    """

    command: Load
    name: str
    target: Decoder
    text: ModelText
    states: StatePool
    loop: Loop
    plan: PlanSummary
    placing: Plan
    devices: Devices
    identity: str = ""

    @property
    def path(self) -> Path:
        """Where it came from."""
        return self.command.model

    @property
    def tokenizer(self) -> Tokenizer:
        """Of the target."""
        return self.text.tokenizer

    @property
    def template(self) -> ChatTemplate:
        """Of the target."""
        return self.text.template

    @property
    def account(self) -> Account | None:
        """Where an answer enters what it takes."""
        processor = self.devices.get(CPU)
        return None if processor is None else Account(processor.ledger, "target")

    @property
    def drafts(self) -> bool:
        """Whether anything drafts."""
        return self.loop.controller is not None

    @property
    def fallback_reason(self) -> str | None:
        """Why the target decodes alone although something could draft; None where it does not."""
        controller = self.loop.controller
        return None if controller is None else controller.fallback_reason

    def recall(self, kept: KeptLearnt) -> None:
        """Go on from what the controller knew at the end of an earlier start."""
        controller, learnt = self.loop.controller, kept.find(self.identity)
        if controller is not None and learnt is not None:
            controller.recall(learnt)

    def keep_learnt(self, kept: KeptLearnt) -> None:
        """Write down what the controller knows, for the next start."""
        if (controller := self.loop.controller) is not None and self.identity:
            kept.keep(self.identity, controller.learnt)

    def held_on(self, device: str) -> int:
        """Bytes that come back there when the pair goes."""
        opened = self.devices.get(device)
        if opened is None:
            return 0
        return coming_back(opened.ledger) if device == CPU else opened.ledger.held

    def take_over(self) -> None:
        """The pair before this one is gone: use all of the budgets."""
        for name, device in self.devices.items():
            device.ledger.budget = self.placing.on(name).budget


def load(
    checked: CheckedPair,
    open_devices: OpenDevices,
    progress: Progress = lambda _stage, _fraction: None,
    cancelled: Cancelled = lambda: False,
    beside: LoadedPair | None = None,
    kept: KeptLearnt | None = None,
) -> LoadedPair:
    """Open the devices of the plan, read the weights and build both decoders.

    Args:
        checked: what.
        open_devices: see `engine.loading.machinery.Machinery.open`.
        progress: told the stage, and how far everything is.
        cancelled: asked at every stretch of weights.
        beside: the present pair, if it stays in memory meanwhile; `take_over` when it is gone.
        kept: where to find what was learnt of the pair in earlier starts; None: it begins anew.

    Raises:
        Cancelled: the user stopped it; nothing stays in memory.
        OutOfMemory: a device does not hold what was planned for it.
        DeviceLost: an accelerator went away meanwhile.
        UserFixable: damaged weights.
    """
    if checked.placing.accelerator is not None:
        progress(tr("Preparing the accelerator"), 0.0)
    devices = open_devices(checked.machine, checked.placing)
    try:
        if beside is not None:
            _leave_room(devices, beside)
        pair = _loaded(checked, devices, progress, cancelled)
        if kept is not None:
            pair.identity = pair_identity(
                checked.machine, default_threads(), checked.planning.models, checked.placing
            )
            pair.recall(kept)
        return pair
    except BaseException as error:
        clear_frames(error.__traceback__)  # what was loaded so far hangs on them
        close(devices)
        raise


def _loaded(
    checked: CheckedPair, devices: Devices, progress: Progress, cancelled: Cancelled
) -> LoadedPair:
    plan = checked.placing
    models = [checked.target, checked.draft] if checked.draft else [checked.target]
    build = DecoderBuilder(models, devices, progress, cancelled)
    target = build.decoder(checked.target, plan.context, plan.target, "target")
    head = checked.draft.fusion if checked.draft else None
    if head is not None:  # before there is a state, which has features or none
        target.feed(head, Account(devices[CPU].ledger, "target"))
    keeping = [KeptStates(StatePool(target, plan.context), plan.target)]
    drafters: list[Drafter] = [LookupDrafter()] if checked.lookup else []
    loop: Loop = Plain()
    if checked.draft is not None:
        described = checked.draft.facts
        context = min(plan.context, described.max_positions)
        shares = whole(len(described.footprint.blocks), plan.draft_device or CPU)
        model = build.decoder(checked.draft, context, shares, "draft")
        keeping.append(KeptStates(StatePool(model, context), shares))
        if plan.mode is Mode.DUO:
            lane = DraftLane(described.name, model, keeping[-1].pool, drafters)
            ahead = checked.command.mode is Mode.DUO
            controller = ParallelController(plan.expected, forced=checked.forced, ahead=ahead)
            loop = Parallel(lane, controller, reads_beside=_reads_beside(checked, devices))
            drafters = []
        else:
            kind = StandaloneDrafter if head is None else HeadDrafter
            drafters.append(kind(described.name, model, keeping[-1].pool))
    if drafters:
        serially = SerialController(plan.expected, forced=checked.forced)
        loop = Serial(CombinedDrafter(drafters), serially)
    progress(tr("Warming up"), 1.0)
    for kept in keeping:
        kept.warm_up()
    give_room(keeping, devices, plan)
    return LoadedPair(
        command=checked.command,
        name=checked.target.model.name,
        target=target,
        text=checked.text,
        states=keeping[0].pool,
        loop=loop,
        plan=replace(checked.plan, signature=target.signature),
        placing=plan,
        devices=devices,
    )


def _reads_beside(checked: CheckedPair, devices: Devices) -> bool:
    """Whether the draft may read a prompt while the target does.

    A simulated accelerator has the host's memory and cores: the first token would be late.
    """
    used = [found for found in checked.machine.accelerators if found.device in devices]
    return not any(found.simulated for found in used)


def _leave_room(devices: Devices, present: LoadedPair) -> None:
    """What the present pair holds is part of the new one's budget until it goes."""
    for name, device in devices.items():
        if device.ledger.budget is not None:
            device.ledger.budget -= present.held_on(name)


def fits_beside(plan: Plan, present: LoadedPair, host_memory: int) -> bool:
    """Whether memory holds what is planned and the present pair, too.

    Args:
        plan: what is to come.
        present: what is in memory.
        host_memory: bytes of the host that are free beside it.
    """
    return plan.on(CPU).total <= host_memory and all(
        memory.total + present.held_on(memory.device) <= memory.budget
        for memory in plan.memory
        if memory.device != CPU
    )
