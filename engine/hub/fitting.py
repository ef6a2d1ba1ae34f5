"""Badge and speed of models that are not here, from the planner; a millisecond or two each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from engine.backend.cpu import choose_format
from engine.commands import Mode, WeightFormat
from engine.errors import OutOfMemory, UserFixable
from engine.hub.fit import Badge, Fit
from engine.hub.pairing.curated import Curated, CuratedModel, curated
from engine.hub.remote.listing import Repository, Variant
from engine.hub.sketch import in_format, of_listed, of_variant
from engine.language import number, sentences, tr
from engine.machine.facts import Machine
from engine.machine.speeds import Speeds
from engine.plan.budgets import COMFORTABLE_CONTEXT, host_reserve
from engine.plan.facts import ModelFacts, Wish, usual_draft
from engine.plan.plan import Plan
from engine.plan.planner import Planning

_GIB = 2**30
_BAND, _ROUGH_BAND = (0.85, 1.15), (0.6, 1.4)
"""Shares of a prediction between which the speed should be, by measured and by assumed speeds."""
_SYSTEM, _DISPLAY = 2 * _GIB, 1 / 16
"""What stays taken when all other programs are closed: bytes of memory, share of an accelerator."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A fit, and the plan that it comes from; None where there is none."""

    fit: Fit
    plan: Plan | None = None


class Fitting:
    """Judges models for one machine.

    Args:
        speeds: of the machine, measured or not.
        known: the list of drafts; None: the one that ships with Duotail.
    """

    def __init__(self, machine: Machine, speeds: Speeds, known: Curated | None = None) -> None:
        self._machine, self._speeds = machine, speeds
        self._known = curated() if known is None else known

    def variant(self, repository: Repository, variant: Variant) -> Fit:
        """One of the ways a repository has its model, with the draft it would have."""
        try:
            sketch = of_variant(repository, variant, self._known)
        except UserFixable as error:
            return Fit(Badge.NO, reason=error.cause)
        drafts = self.drafts(sketch.listed) if sketch.listed is not None else []
        return self.judged(sketch.facts, drafts, guessed=sketch.guessed).fit

    def listed(self, model: CuratedModel, variant: str) -> Judged:
        """A listed model in GGUF."""
        return self.judged(of_listed(model, variant), self.drafts(model))

    def drafts(self, target: CuratedModel) -> list[ModelFacts]:
        """The models that are listed as its drafts."""
        return [draft_facts(draft) for draft, _ in self._known.drafts_for(target)]

    def judged(
        self, target: ModelFacts, drafts: Sequence[ModelFacts], *, guessed: bool = False
    ) -> Judged:
        """A model as far as it is known; `guessed`: its shape is not."""
        try:
            plan = self._plan(self._machine, target, drafts)
        except OutOfMemory as error:
            return Judged(self._without_others(target, error))
        except UserFixable as error:
            return Judged(Fit(Badge.UNKNOWN, reason=error.cause))
        measured = self._speeds.measured and not guessed
        low, high = _BAND if measured else _ROUGH_BAND
        badge, reason = _badge(plan, target)
        fit = Fit(
            badge,
            slowest=None if plan.plain_tokens_per_s is None else low * plan.plain_tokens_per_s,
            fastest=None if plan.tokens_per_s is None else high * plan.tokens_per_s,
            reason=reason,
        )
        return Judged(fit, plan)

    def _without_others(self, target: ModelFacts, error: OutOfMemory) -> Fit:
        """Whether it would fit if other programs were closed."""
        try:
            self._plan(_alone(self._machine), target, ())
        except UserFixable:
            return Fit(Badge.NO, reason=error.cause)
        said = tr("It would fit if other programs were closed.")
        return Fit(Badge.TIGHT, reason=sentences(error.cause, said))

    def _plan(self, machine: Machine, target: ModelFacts, drafts: Sequence[ModelFacts]) -> Plan:
        wish = Wish(Mode.AUTO, None, lookup=False, forced=False)
        candidates = [] if target.other_family else [usual_draft(draft) for draft in drafts]
        return Planning(machine, self._speeds, target, candidates, wish).plan()


@cache
def draft_facts(model: CuratedModel) -> ModelFacts:
    """A listed draft as it would be loaded."""
    weights = choose_format(WeightFormat.AUTO, model.parameters)
    return ModelFacts(model.name, in_format(model.config, weights), model.context)


def _badge(plan: Plan, target: ModelFacts) -> tuple[Badge, str]:
    """In a word and in a sentence."""
    if plan.context < min(COMFORTABLE_CONTEXT, target.max_positions):
        said = tr("There is room for a conversation of {context} tokens only.")
        room = said.format(context=number(plan.context, ",d"))
        return Badge.TIGHT, sentences(plan.reasons[0], room)
    layers = len(target.footprint.blocks)
    if not plan.layers_on_gpu:
        return Badge.CPU, plan.reasons[0]
    whole = plan.layers_on_gpu == layers and plan.head_on_gpu
    return (Badge.GPU if whole else Badge.SPLIT), plan.reasons[0]


def _alone(machine: Machine) -> Machine:
    """The machine with other programs closed."""
    host = machine.host
    most = max(host.memory_available, host.memory_total - _SYSTEM - host_reserve(host))
    accelerators = tuple(
        replace(found, memory_free=max(found.memory_free or 0, _most_of(found.memory_total)))
        for found in machine.accelerators
    )
    return replace(machine, host=replace(host, memory_available=most), accelerators=accelerators)


def _most_of(total: int | None) -> int:
    return int((total or 0) * (1 - _DISPLAY))
