"""The planner: which device does what. Pure: facts in, a plan out; a few milliseconds.

What a plan can be made of is surveyed once (`engine.plan.survey`); a ceiling then takes ways away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.backend.segment import Share
from engine.commands import Mode
from engine.events.curve import Curve, CurvePoint
from engine.machine.facts import CPU, Accelerator, Machine
from engine.machine.memory import DeviceMemory
from engine.machine.speeds import DeviceSpeeds, Speeds
from engine.plan.assumed import assumed_speeds
from engine.plan.budgets import COMFORTABLE_CONTEXT, context_for, host_reserve, runtime_bytes
from engine.plan.cost import AcceleratorLane
from engine.plan.facts import DraftFacts, ModelFacts, Wish
from engine.plan.holding import Holding
from engine.plan.known import PairCorrections, key_of
from engine.plan.paces import Paces
from engine.plan.plan import Plan
from engine.plan.reasons import Told, reasons
from engine.plan.refusals import Asked, check_wish, does_not_fit
from engine.plan.survey import Survey, SurveyChoice


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
    """One question to the planner, surveyed; the ceiling may still vary. Raises as `plan`."""

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
        self._drafts = list(drafts)
        self._speeds = speeds
        self._assumed = assumed_speeds(machine)
        self._survey = self._best_survey()

    @property
    def models(self) -> str:
        """What the memory of these models is remembered by."""
        return key_of(self._target, self._drafts)

    def plan(self) -> Plan:
        """The plan for the ceiling that was wished for, or for the knee.

        Raises:
            OutOfMemory: nothing fits.
        """
        survey, vram = self._survey, self._wish.vram
        choice = self.choice(survey.knee if vram is None else vram)
        if choice is None:
            most = survey.limit if vram is None else min(vram, survey.limit)
            nearest = survey.nearest(most)
            asked = Asked(self._machine, survey, self._target, self._drafts, self._wish, most)
            raise does_not_fit(asked, nearest, self._memory(nearest))
        return self._planned(choice)

    def choice(self, ceiling: int) -> SurveyChoice | None:
        """What a ceiling of VRAM is used for; None where nothing fits."""
        return self._survey.best(min(ceiling, self._survey.limit))

    @property
    def limit(self) -> int:
        """The highest ceiling that means anything; 0 without an accelerator."""
        return self._survey.limit

    def curve(self) -> Curve:
        """What every ceiling would give."""
        survey = self._survey
        return Curve(
            mode=self._wish.mode,
            points=tuple(map(self._point, survey.steps)),
            limit=survey.limit,
            knee=survey.knee,
            layers=len(self._target.footprint.blocks),
            context=survey.context,
        )

    def _point(self, choice: SurveyChoice) -> CurvePoint:
        shares = self._shares(choice.cut)
        return CurvePoint(
            vram=choice.vram,
            layers_on_gpu=min(choice.cut, len(self._target.footprint.blocks)),
            mode=choice.mode,
            draft_device=choice.way.draft_device,
            tokens_per_s=choice.rate,
            plain_tokens_per_s=choice.plain_rate,
            memory=self._memory(choice),
            embedding_on_gpu=shares[0].device != CPU,
            head_on_gpu=shares[-1].device != CPU,
        )

    def _best_survey(self) -> Survey:
        """That of the accelerator that serves best; the first one of equals."""
        usable: Sequence[Accelerator | None] = self._machine.usable
        if self._wish.mode is Mode.CPU or self._target.other_family or not usable:
            usable = [None]
        surveys = [self._surveyed(found) for found in usable]
        best = max(surveys, key=lambda each: choice.rate if (choice := each.fastest) else 0.0)
        fastest = best.fastest
        if best.accelerator is None or fastest is None or fastest.vram:
            return best
        # What stays idle does not say how long a conversation may be.
        longer = self._surveyed(best.accelerator, limits_context=False)
        return longer if longer.possible else best

    def _surveyed(self, found: Accelerator | None, *, limits_context: bool = True) -> Survey:
        host, wish, target = self._machine.host, self._wish, self._target
        budget = host.memory_available - host_reserve(host)
        alone = wish.mode is Mode.PLAIN or bool(target.other_family)
        drafts = [] if alone else self._drafts
        paces = Paces(host, found, self._lane(found), self._device(CPU), target, drafts, wish)
        limiting = found if limits_context else None
        context = context_for(budget, limiting, target, drafts, wish)
        without = context_for(budget, limiting, target, [], wish)
        if not wish.forced and 2 * context < min(without, COMFORTABLE_CONTEXT):
            drafts, context = [], without  # a draft is not worth most of a short context
        device = None if found is None else found.device
        known = PairCorrections.of(self._machine, self.models, device)
        survey = Survey(host, found, paces, target, drafts, wish, context, known)
        best = survey.fastest
        if context == without or (best is not None and best.way.draft is not None):
            return survey
        # Nobody drafts: the room for that is the conversation's.
        longer = Survey(host, found, paces, target, drafts, wish, without, known)
        return longer if longer.possible else survey

    def _lane(self, found: Accelerator | None) -> AcceleratorLane | None:
        if found is None:
            return None
        link = self._speeds.links.get(found.device) or self._assumed.links[found.device]
        return AcceleratorLane(self._device(found.device), link, returns_logits=not found.simulated)

    def _device(self, name: str) -> DeviceSpeeds:
        return self._speeds.devices.get(name) or self._assumed.devices[name]

    def _planned(self, choice: SurveyChoice) -> Plan:
        survey, wish, way = self._survey, self._wish, choice.way
        drafting = way.draft_device is not None
        made = Plan(
            mode=choice.mode,
            target=self._shares(choice.cut),
            draft=way.draft,
            draft_device=way.draft_device,
            lookup=wish.lookup and drafting,
            context=survey.context,
            depth=choice.depth,
            tokens_per_s=choice.rate,
            plain_tokens_per_s=choice.plain_rate,
            memory=self._memory(choice),
            reasons=(),
            knee=None if survey.accelerator is None else survey.knee,
            threads=self._threads(choice),
            expected=survey.expected(choice),
        )
        told = Told(self._machine, survey, self._target, self._drafts, wish, choice, made)
        return replace(made, reasons=reasons(told))

    def _shares(self, cut: int) -> tuple[Share, ...]:
        held, found = self._target.footprint, self._survey.accelerator
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

    def _memory(self, choice: SurveyChoice) -> tuple[DeviceMemory, ...]:
        survey, host, way = self._survey, self._machine.host, choice.way
        held, on_host = survey.draft_holding(way), way.draft_device == CPU
        draft = None if held is None else held.at(choice.cut)
        budget = host.memory_available - host_reserve(host)
        cpu = _held(CPU, budget, survey.cpu_holding.at(choice.cut), draft if on_host else None)
        here, there = (int(room[choice.cut % len(room)]) for room in survey.tap_rooms(way))
        features = survey.feature_bytes(way)
        cpu = replace(cpu, features=features, workspace=cpu.workspace + here)
        found, wished = survey.accelerator, self._wish.vram
        if not choice.vram or found is None:
            return (cpu,)
        budget = survey.limit if wished is None else min(wished, survey.limit)
        target = survey.device_holding.at(choice.cut)
        held_there = _held(found.device, budget, target, None if on_host else draft)
        work = held_there.workspace + there
        return cpu, replace(held_there, workspace=work, runtime=runtime_bytes(found))

    def _threads(self, choice: SurveyChoice) -> int | None:
        """A simulated accelerator that computes at the same time has a core of its own."""
        found, cores = self._survey.accelerator, self._machine.host.cores
        beside = choice.way.parallel and found is not None and found.simulated
        return max(cores - 1, 1) if beside else None


def _held(device: str, budget: int, target: Holding, draft: Holding | None) -> DeviceMemory:
    """A target, and perhaps a draft, on one device."""
    models = [target] if draft is None else [target, draft]
    shared = max(int(each.shared[0]) for each in models)
    return DeviceMemory(
        device,
        budget,
        target=int(target.weights[0]),
        draft=0 if draft is None else int(draft.weights[0]),
        kv=sum(int(each.kv[0]) for each in models),
        workspace=shared + sum(int(each.workspace[0]) for each in models),
    )
