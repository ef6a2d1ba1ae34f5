"""The planner: which device does what. Pure: facts in, a plan out; a few milliseconds.

All placements are searched once (`engine.plan.search`); a ceiling then takes some of them away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from engine.backend.segment import Share
from engine.commands import Mode
from engine.errors import OutOfMemory
from engine.events.models import Curve, CurvePoint
from engine.machine.facts import CPU, Accelerator, Machine
from engine.machine.memory import DeviceMemory, host_reserve
from engine.machine.reached import PlacementKey, Reached
from engine.machine.speeds import DeviceSpeeds, Speeds
from engine.plan.assumed import assumed_speeds
from engine.plan.cost import AcceleratorLane
from engine.plan.facts import DraftFacts, ModelFacts, Wish, key_of
from engine.plan.memory import PlannedMemory, context_for, runtime_bytes
from engine.plan.plan import Plan
from engine.plan.reasons import Told, reasons
from engine.plan.refusals import check_wish, does_not_fit
from engine.plan.search import Placement, PlacementSearch
from engine.plan.throughput import Throughput

_WORTH_CONTEXT = 1.05
"""A context is shortened only for a speed that is more than so many times as high."""


def plan(
    machine: Machine,
    speeds: Speeds,
    target: ModelFacts,
    drafts: Sequence[DraftFacts],
    wish: Wish,
) -> Plan:
    """Place target and draft.

    Speeds that are missing are assumed, see `engine.plan.assumed`.

    Raises:
        Absent: the mode needs what this machine does not have.
        OutOfMemory: the models do not fit into the free memory.
        NotPossible: a wish that this model or this draft cannot meet.
    """
    return Planning(machine, speeds, target, drafts, wish).plan()


class Planning:
    """One question to the planner with all placements; the ceiling may still vary.

    Raises as `plan` does.
    """

    def __init__(
        self,
        machine: Machine,
        speeds: Speeds,
        target: ModelFacts,
        drafts: Sequence[DraftFacts],
        wish: Wish,
    ) -> None:
        check_wish(machine, target, drafts, wish)
        self._machine, self._target, self._wish = machine, target, wish
        self.models = key_of(target, drafts)
        """Key under which memory and speed of these models are kept."""
        self.reached = tuple(each for each in machine.reached if each.models == self.models)
        """What answers of these models reached on this machine, the newest first."""
        accepted = next((each.acceptance for each in self.reached if each.acceptance), None)
        self._drafts = [_as_accepted(draft, accepted) for draft in drafts]
        self._speeds = speeds
        self._assumed = assumed_speeds(machine)
        self._search = self._best_search()

    def knowing(self, reached: Sequence[Reached], acceptance: float | None = None) -> Planning:
        """Return the same question with other knowledge.

        Args:
            reached: by answers of these models, the newest first.
            acceptance: of the draft's tokens; None: as `reached` tells.
        """
        drafts = self._drafts
        if acceptance is not None:
            drafts = [_as_accepted(draft, acceptance) for draft in drafts]
            reached = [replace(each, acceptance=None) for each in reached]
        machine = replace(self._machine, reached=tuple(reached))
        return Planning(machine, self._speeds, self._target, drafts, self._wish)

    def rate(self, placement: PlacementKey) -> float | None:
        """Return the tokens per second of a placement; None where it is not possible."""
        return self._search.rate(placement)

    def plan(self) -> Plan:
        """Return the plan for the wished ceiling, or for the knee.

        Raises:
            OutOfMemory: nothing fits.
        """
        vram = self._wish.vram
        placement = self.placement(self._search.knee if vram is None else vram)
        if placement is None:
            raise self._does_not_fit()
        return self._planned(placement)

    def _does_not_fit(self) -> OutOfMemory:
        nearest = self._search.nearest(self._ceiling)
        memory = self._memory(nearest)
        return does_not_fit(self._search, self._drafts, nearest, memory, self._ceiling)

    def placement(self, ceiling: int) -> Placement | None:
        """Return the best placement under a ceiling of VRAM in bytes; None where nothing fits."""
        return self._search.best(min(ceiling, self._search.limit))

    @property
    def limit(self) -> int:
        """Highest useful ceiling in bytes; 0 without an accelerator."""
        return self._search.limit

    def curve(self) -> Curve:
        """Return the outcome at every ceiling that makes a difference."""
        search = self._search
        steps = search.steps
        return Curve(
            mode=self._wish.mode,
            points=tuple(map(self._point, steps)),
            limit=search.limit,
            knee=search.knee,
            layers=len(self._target.footprint.blocks),
            context=search.context,
            refusal="" if steps else str(self._does_not_fit()),
        )

    def _point(self, placement: Placement) -> CurvePoint:
        shares = self._shares(placement.cut)
        return CurvePoint(
            vram=placement.vram,
            layers_on_gpu=min(placement.cut, len(self._target.footprint.blocks)),
            mode=placement.mode,
            draft_device=placement.strategy.draft_device,
            tokens_per_s=placement.rate,
            plain_tokens_per_s=placement.plain_rate,
            memory=self._memory(placement),
            embedding_on_gpu=shares[0].device != CPU,
            head_on_gpu=shares[-1].device != CPU,
        )

    @property
    def _ceiling(self) -> int:
        """Bytes that may be held on the accelerator."""
        vram, limit = self._wish.vram, self._search.limit
        return limit if vram is None else min(vram, limit)

    # ---- the search ------------------------------------------------------------------------------

    def _best_search(self) -> PlacementSearch:
        """Return the placements with the accelerator that serves best; the first one of equals.

        Where nothing fits, the one with the most room: the refusal tells of it.
        """
        usable: Sequence[Accelerator | None] = [
            found for found in self._machine.usable if self._counts(found)
        ]
        if self._wish.mode is Mode.CPU or self._target.other_family or not usable:
            usable = [None]
        found = [self._placements(each) for each in usable]
        return max(found, key=lambda each: (_rate(each), 0 if each.possible else each.limit))

    def _counts(self, found: Accelerator) -> bool:
        """Tell whether an accelerator is planned with.

        Without kernels, and through WebGPU, which of its models nobody knows, only as measured.
        """
        wish = self._wish
        asked = wish.mode in (Mode.DOVETAIL, Mode.DUO) or bool(wish.layers_on_gpu) or found.chosen
        doubtful = found.without_kernels or found.webgpu
        return asked or not doubtful or found.device in self._speeds.devices

    def _placements(self, found: Accelerator | None) -> PlacementSearch:
        """Return the placements with an accelerator, with as long a context as memory allows.

        A shorter one, which leaves more of the accelerator to weights or room for a draft, has to
        be worth it; the reasons then say what it costs.
        """
        host, wish, target = self._machine.host, self._wish, self._target
        budget = host.memory_available - host_reserve(host)
        alone = wish.mode is Mode.PLAIN or bool(target.other_family)
        drafts = [] if alone else self._drafts
        throughput = Throughput(
            host, found, self._lane(found), self._device(CPU), target, drafts, wish, self.reached
        )
        whole = context_for(budget, found, target, [], wish, cut=False)
        shorter = context_for(budget, found, target, drafts, wish)
        search = partial(PlacementSearch, throughput)
        if shorter >= whole:
            return search(whole)
        shortest = search(shorter)
        enough = _rate(shortest) / _WORTH_CONTEXT
        longer = map(search, (whole, round((whole * shorter) ** 0.5)))
        return next((each for each in longer if each.possible and _rate(each) >= enough), shortest)

    def _lane(self, found: Accelerator | None) -> AcceleratorLane | None:
        if found is None:
            return None
        link = self._speeds.links.get(found.device) or self._assumed.links[found.device]
        return AcceleratorLane(
            self._device(found.device), link, returns_logits=not found.takes_core
        )

    def _device(self, name: str) -> DeviceSpeeds:
        return self._speeds.devices.get(name) or self._assumed.devices[name]

    # ---- the plan --------------------------------------------------------------------------------

    def _planned(self, placement: Placement) -> Plan:
        search, strategy = self._search, placement.strategy
        made = Plan(
            mode=placement.mode,
            target=self._shares(placement.cut),
            draft=strategy.draft,
            draft_device=strategy.draft_device,
            lookup=self._wish.lookup and strategy.draft_device is not None,
            context=search.context,
            depth=placement.depth,
            tokens_per_s=placement.rate,
            plain_tokens_per_s=placement.plain_rate,
            memory=self._memory(placement),
            reasons=(),
            knee=None if search.accelerator is None else search.knee,
            threads=self._threads(placement),
            expected=search.expected(placement),
        )
        told = Told(
            self._machine, search, self._drafts, placement, made, self._ceiling, self.reached
        )
        return replace(made, reasons=reasons(told))

    def _shares(self, cut: int) -> tuple[Share, ...]:
        held, found = self._target.footprint, self._search.accelerator
        count = len(held.blocks)
        if cut == 0 or found is None:
            return (Share(CPU, range(count), embeds=True, heads=True),)
        if cut > count and held.tied:
            return (Share(found.device, range(count), embeds=True, heads=True),)
        embedding = Share(CPU, range(0), embeds=True)
        if cut > count:
            return embedding, Share(found.device, range(count), heads=True)
        rest = Share(CPU, range(cut, count), heads=True)
        return embedding, Share(found.device, range(cut)), rest

    def _memory(self, placement: Placement) -> tuple[DeviceMemory, ...]:
        search, strategy, cut = self._search, placement.strategy, placement.cut
        held, on_host = search.draft_memory(strategy), strategy.draft_device == CPU
        draft = None if held is None else held.at(cut)
        here, there = (int(room[cut % len(room)]) for room in search.tap_rooms(strategy))
        cpu = _held(
            CPU, search.host_budget, search.cpu_memory.at(cut), draft if on_host else None, here
        )
        cpu = replace(cpu, features=search.feature_bytes(strategy))
        found = search.accelerator
        if not placement.vram or found is None:
            return (cpu,)
        target, draft = search.device_memory.at(cut), None if on_host else draft
        device = _held(found.device, self._ceiling, target, draft, there)
        return cpu, replace(device, runtime=runtime_bytes(found))

    def _threads(self, placement: Placement) -> int | None:
        """Return the wished threads; in Duo with a simulated accelerator one less than cores."""
        if self._wish.threads is not None:
            return self._wish.threads
        found, cores = self._search.accelerator, self._machine.host.cores
        beside = placement.strategy.parallel and found is not None and found.takes_core
        return max(cores - 1, 1) if beside else None


def _as_accepted(draft: DraftFacts, acceptance: float | None) -> DraftFacts:
    """Return a draft of chains with the acceptance of answers, where it is known."""
    return draft if acceptance is None or draft.width > 1 else replace(draft, acceptance=acceptance)


def _held(
    device: str, budget: int, target: PlannedMemory, draft: PlannedMemory | None, taps: int
) -> DeviceMemory:
    """Return the memory of a target and its draft, if any, on a device; `taps`: head workspace."""
    models = [target] if draft is None else [target, draft]
    shared = max(int(each.shared[0]) for each in models)
    return DeviceMemory(
        device,
        budget,
        target=int(target.weights[0]),
        draft=0 if draft is None else int(draft.weights[0]),
        kv=sum(int(each.kv[0]) for each in models),
        workspace=taps + shared + sum(int(each.workspace[0]) for each in models),
    )


def _rate(search: PlacementSearch) -> float:
    """Return the best speed that a search found; 0 where nothing fits."""
    fastest = search.fastest
    return 0.0 if fastest is None else fastest.rate
