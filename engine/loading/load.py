"""A loaded pair of models, ready to answer, and how it is made from a planned load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from traceback import clear_frames

import numpy as np

from engine.backend.cpu import CpuDevice
from engine.backend.decoder import Decoder
from engine.backend.ledger import Account, Ledger, Purpose
from engine.backend.prefix_cache import PrefixCache
from engine.backend.segment import Share
from engine.commands import Load, Mode
from engine.devices.kept_measurements import KeptLearnt, pair_identity
from engine.events import PlanSummary
from engine.language import tr
from engine.loading.decoder_builder import DecoderBuilder
from engine.loading.devices import Devices, IsCancelled, Progress, close, whole
from engine.loading.inspection import ModelText
from engine.loading.planned_load import PlannedLoad
from engine.machine.cores import default_threads
from engine.machine.facts import CPU, Machine
from engine.machine.memory import DeviceMemory
from engine.model.config import ModelConfig
from engine.model.text.chat_template import ChatTemplate
from engine.model.text.grammar import GrammarCompiler
from engine.model.text.tokenizer import Tokenizer
from engine.plan.memory import KV_SHARE
from engine.plan.plan import USUAL, Plan
from engine.speculative.controller import Controller
from engine.speculative.costs import DraftCosts
from engine.speculative.draft_worker import ParallelDraft
from engine.speculative.drafters.combined import CombinedDrafter
from engine.speculative.drafters.drafter import Drafter
from engine.speculative.drafters.lookup import LookupDrafter
from engine.speculative.drafters.model import HeadDrafter, StandaloneDrafter
from engine.speculative.loops import Loop, Parallel, Plain, Serial
from engine.speculative.strategies import DraftingStrategy

TARGETS_SHARE = 0.75
"""The target's share of what is left for further sequences; a draft has the rest."""

RESERVED_SHARE = 7 / 8
"""Share of the host's free memory that may be reserved for caches: address space, mostly.

One sequence of a long context reserves all that they may take together, and rarely takes it.
"""


def warm_up(pool: PrefixCache, shares: Sequence[Share]) -> Counter[str]:
    """Run one forward, so that the first answer does not pay for first touches.

    Returns:
        Bytes that one of the model's sequences takes on each device.
    """
    config = pool.decoder.config
    fusion = config.fusion if isinstance(config, ModelConfig) else None
    features = None if fusion is None else np.zeros((1, fusion.width), dtype=np.float32)
    state = pool.take([0])
    pool.decoder.forward(state, [0], features=features)
    state.discard()
    sizes: Counter[str] = Counter()
    for share, cache in zip(shares, state.caches, strict=True):
        sizes[share.device] += cache.nbytes
    sizes[CPU] += state.features.nbytes if state.features else 0
    return sizes


def set_cache_budgets(
    pools: Sequence[PrefixCache], sizes: Sequence[Counter[str]], devices: Devices, plan: Plan
) -> None:
    """Let the pools keep as many sequences as there is room for; each one has a sequence already.

    An accelerator's caches are taken whole, so that what is left there decides. On the host they
    grow as they are used, up to a part of its memory, of which more is reserved: few conversations
    come near a long context.

    Args:
        pools: the target's, and the draft's if there is one.
        sizes: for each, what `warm_up` returned.
        devices: where the models lie.
        plan: what was to be held there.
    """
    left = {
        name: _room(device.ledger, plan.on(name)) - sum(size[name] for size in sizes)
        for name, device in devices.items()
    }
    ledger = devices[CPU].ledger if CPU in devices else None
    parts = (TARGETS_SHARE, 1 - TARGETS_SHARE) if len(pools) > 1 else (1.0,)
    for pool, size, part in zip(pools, sizes, parts, strict=True):
        more = (max(left[name], 0) * part / nbytes for name, nbytes in size.items() if nbytes)
        pool.budget_bytes = pool.nbytes * (1 + int(min(more, default=0)))
        if ledger is not None:
            pool.spare = partial(ledger.spare, int(_free(plan.on(CPU)) * KV_SHARE))


def _free(planned: DeviceMemory) -> int:
    """Return the bytes of the host beside the weights."""
    return planned.budget - planned.target - planned.draft


def _room(ledger: Ledger, planned: DeviceMemory) -> int:
    """Return the bytes that may be reserved for all KV caches on a device together."""
    if ledger.device == CPU:
        return int(_free(planned) * RESERVED_SHARE)
    lines = ledger.lines()
    beside = sum(line.nbytes for line in lines if line.purpose is not Purpose.KV)
    return planned.budget - max(beside, planned.total - planned.kv)


@dataclass(slots=True)
class LoadedPair:
    """Everything an answer needs, and what holds it.

    Attributes:
        loop: how answers are decoded, and what it has learnt.
        plan: what was planned; `summary`: the same in the words of events.
        identity: of the models, their places and the machine, by which that is kept on disk.
        grammars: compiles those that answers have to follow.
    """

    command: Load
    name: str
    target: Decoder
    text: ModelText
    states: PrefixCache
    loop: Loop
    plan: Plan
    summary: PlanSummary
    devices: Devices
    identity: str = ""
    grammars: GrammarCompiler = field(init=False)

    def __post_init__(self) -> None:
        account, vocab = self.account, self.target.config.vocab_size
        reserve = None if account is None else partial(account.take, Purpose.WORKSPACE)
        self.grammars = GrammarCompiler(self.tokenizer, vocab, reserve)

    @property
    def path(self) -> Path:
        """The target's folder or file."""
        return self.command.model

    @property
    def tokenizer(self) -> Tokenizer:
        """The target's tokenizer."""
        return self.text.tokenizer

    @property
    def template(self) -> ChatTemplate:
        """The target's chat template."""
        return self.text.template

    @property
    def account(self) -> Account | None:
        """The account in which an answer enters the memory it takes."""
        processor = self.devices.get(CPU)
        return None if processor is None else Account(processor.ledger, "target")

    @property
    def threads(self) -> int | None:
        """Threads that compute on the CPU, and draw; None: one for each core."""
        processor = self.devices.get(CPU)
        return processor.threads if isinstance(processor, CpuDevice) else None

    @property
    def drafts(self) -> bool:
        """Tell whether anything drafts."""
        return self.loop.controller is not None

    @property
    def fallback_reason(self) -> str | None:
        """Reason why the target decodes alone although something could draft; or None."""
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
        """Return the bytes that come back on a device when the pair goes.

        Weights mapped from files are not in it: the system counts their memory as available anyway.
        """
        opened = self.devices.get(device)
        if opened is None:
            return 0
        if device != CPU:
            return opened.ledger.held
        return sum(line.touched - line.mapped for line in opened.ledger.lines())

    def machine_without_it(self, machine: Machine) -> Machine:
        """Return the machine as it will be when the pair is gone."""
        host = machine.host
        free = host.memory_available + self.held_on(CPU)
        return replace(machine, host=replace(host, memory_available=free))

    def take_over(self) -> None:
        """Use all of the budgets, once the pair before this one is gone."""
        for name, device in self.devices.items():
            device.ledger.budget = self.plan.on(name).budget


def load(
    planned: PlannedLoad,
    open_devices: Callable[[Machine, Plan], Devices],
    progress: Progress = lambda _stage, _fraction: None,
    cancelled: IsCancelled = lambda: False,
    beside: LoadedPair | None = None,
    kept: KeptLearnt | None = None,
) -> LoadedPair:
    """Open the devices of the plan, read the weights and build both decoders.

    Args:
        planned: what.
        open_devices: see `engine.loading.devices.DeviceManager.open`.
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
    machine, plan = planned.inspection.machine, planned.plan
    if plan.accelerator is not None:
        progress(tr("Preparing the GPU"), 0.0)
    devices = open_devices(machine, plan)
    try:
        if beside is not None:
            _leave_room(devices, beside)
        pair = _loaded(planned, devices, progress, cancelled)
        if kept is not None:
            threads = planned.inspection.command.threads or default_threads()
            pair.identity = pair_identity(machine, threads, planned.planning.models, plan)
            pair.recall(kept)
        return pair
    except BaseException as error:
        clear_frames(error.__traceback__)  # what was loaded so far hangs on them
        close(devices)
        raise


def _loaded(
    planned: PlannedLoad, devices: Devices, progress: Progress, cancelled: IsCancelled
) -> LoadedPair:
    inspection, plan, draft = planned.inspection, planned.plan, planned.draft
    models = [inspection.target] if draft is None else [inspection.target, draft]
    builder = DecoderBuilder(models, devices, progress, cancelled)
    target = builder.decoder(inspection.target, plan.context, plan.target, "target")
    if draft is not None and draft.fusion is not None:  # before a state, which has features or none
        target.feed(draft.fusion, Account(devices[CPU].ledger, "target"))
    pools, shares = [PrefixCache(target, plan.context)], [plan.target]
    if draft is not None:
        facts = draft.facts
        context = min(plan.context, facts.max_positions)
        shares.append(whole(len(facts.footprint.blocks), plan.draft_device or CPU))
        model = builder.decoder(draft, context, shares[-1], "draft")
        pools.append(PrefixCache(model, context))
    loop = _loop(planned, devices, *pools[1:])
    progress(tr("Warming up"), 1.0)
    sizes = list(map(warm_up, pools, shares))
    set_cache_budgets(pools, sizes, devices, plan)
    return LoadedPair(
        command=inspection.command,
        name=inspection.target.model.name,
        target=target,
        text=inspection.text,
        states=pools[0],
        loop=loop,
        plan=plan,
        summary=replace(planned.summary, signature=target.signature),
        devices=devices,
    )


def _loop(planned: PlannedLoad, devices: Devices, draft_states: PrefixCache | None = None) -> Loop:
    """The decoding loop of a plan; `draft_states`: those of the draft model, if there is one."""
    inspection, plan, draft = planned.inspection, planned.plan, planned.draft
    command = inspection.command
    drafters: list[Drafter] = [LookupDrafter()] if plan.lookup else []
    if draft is not None and draft_states is not None:
        decoder, expected = draft_states.decoder, plan.expected or USUAL
        if plan.mode is Mode.DUO:
            costs = DraftCosts(expected.levels, beside=True)
            lane = ParallelDraft(decoder, draft_states, drafters, costs)
            beside = _reads_beside(inspection.machine, devices)
            return Parallel(lane, controller_of(command, plan, costs), reads_beside=beside)
        kind = StandaloneDrafter if draft.fusion is None else HeadDrafter
        drafters.append(kind(decoder, draft_states, DraftCosts(expected.levels)))
    if not drafters:
        return Plain()
    drafter = CombinedDrafter(drafters)
    return Serial(drafter, controller_of(command, plan, drafter.costs))


def controller_of(command: Load, plan: Plan, costs: DraftCosts | None) -> Controller:
    """Return a controller of a pair that has decoded nothing yet.

    Args:
        command: the user's wishes: a mode or a draft asked for by name always drafts.
        plan: of the pair.
        costs: what drafting takes; None: next to nothing.
    """
    ways = [DraftingStrategy.SERIAL]
    if plan.mode is Mode.DUO:
        ways = [DraftingStrategy.PARALLEL, *([] if command.mode is Mode.DUO else ways)]
    return Controller(plan.expected, costs, ways, forced=command.forces_drafting)


def _reads_beside(machine: Machine, devices: Devices) -> bool:
    """Tell whether the draft may read a prompt while the target does.

    A simulated accelerator has the host's memory and cores: the first token would be late.
    """
    used = [found for found in machine.accelerators if found.device in devices]
    return not any(found.takes_core for found in used)


def _leave_room(devices: Devices, present: LoadedPair) -> None:
    """Take off the budgets what the present pair holds until it goes."""
    for name, device in devices.items():
        if device.ledger.budget is not None:
            device.ledger.budget -= present.held_on(name)


def fits_beside(planned: PlannedLoad, present: LoadedPair) -> bool:
    """Tell whether memory holds both the planned models and the present pair."""
    plan, free = planned.plan, planned.inspection.machine.host.memory_available
    return plan.on(CPU).total <= free - present.held_on(CPU) and all(
        memory.total + present.held_on(memory.device) <= memory.budget
        for memory in plan.memory
        if memory.device != CPU
    )
