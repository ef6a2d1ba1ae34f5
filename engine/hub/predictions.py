"""Predictions of the planner: whether a model would run here, how fast, and what a draft brings.

Each takes a millisecond or two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from engine.backend.cpu import choose_format
from engine.commands import Mode, WeightFormat
from engine.errors import OutOfMemory, UserFixable
from engine.hub.advice import Badge, Fit
from engine.hub.curated import Curated, CuratedModel, curated
from engine.hub.messages import Repository, Variant
from engine.hub.sketch import head_of_listed, in_format, of_listed, of_stored, of_variant
from engine.language import number, sentences, tr
from engine.machine.facts import Machine
from engine.machine.memory import host_reserve
from engine.machine.speeds import Speeds
from engine.model.config import ModelConfig
from engine.model.heads.description import DraftOnly
from engine.model.local_model import LocalModel
from engine.model.text.shortlist import OWN_ROWS, shortened
from engine.plan.facts import ModelFacts, Wish, that_serves, usual_draft
from engine.plan.footprint import Footprint, footprint, weight_count
from engine.plan.memory import COMFORTABLE_CONTEXT
from engine.plan.plan import Plan
from engine.plan.planner import Planning

_GIB = 2**30
_BAND, _ROUGH_BAND = (0.85, 1.15), (0.6, 1.4)
"""Shares of a prediction between which the speed should be, by measured and by assumed speeds."""
_SYSTEM, _DISPLAY = 2 * _GIB, 1 / 16
"""Memory still taken with all other programs closed: bytes; share of an accelerator."""

_AUTO = Wish(Mode.AUTO, None, lookup=False, forced=False)


@dataclass(frozen=True, slots=True)
class Judged:
    """A fit, and the plan that it comes from; None where there is none."""

    fit: Fit
    plan: Plan | None = None


class Predictions:
    """The planner's view of models on one machine.

    Args:
        machine: where they would run.
        speeds: of the machine, measured or not.
        known: the list of drafts; None: the one that ships with Duotail.
    """

    def __init__(self, machine: Machine, speeds: Speeds, known: Curated | None = None) -> None:
        self._machine, self._speeds = machine, speeds
        self._known = curated() if known is None else known

    def variant(self, repository: Repository, variant: Variant) -> Fit:
        """Return the fit of a variant on the hub, with the draft it would have."""
        try:
            sketch = of_variant(repository, variant, self._known)
        except UserFixable as error:
            return Fit(Badge.NO, reason=error.cause)
        drafts = self.drafts(sketch.listed) if sketch.listed is not None else []
        return self.judged(sketch.facts, drafts, guessed=sketch.guessed).fit

    def listed(self, model: CuratedModel, variant: str) -> Judged:
        """Return fit and plan of a listed model in GGUF, as in "Q4_K_M"."""
        return self.judged(of_listed(model, variant), self.drafts(model))

    def speedup(self, target: LocalModel, draft: LocalModel) -> float | None:
        """Return tokens/s with drafts in every round over those of the target alone.

        None where nobody knows: the target does not fit, or runs through transformers.
        """
        own = _facts(target)
        if own is None or not isinstance(target.config, ModelConfig):
            return None
        other = _head(target.config, draft, target.name) or _draft(draft)
        if other is None:
            return None
        alone, drafted = Wish(Mode.PLAIN, None, False, False), Wish(Mode.AUTO, None, False, True)
        try:
            before = self._plan(self._machine, own, (), alone).tokens_per_s
            after = self._plan(self._machine, own, (other,), drafted).tokens_per_s
        except UserFixable:
            return None
        return after / before if before and after else None

    def drafts(self, target: CuratedModel) -> list[ModelFacts]:
        """Return the models that are listed as a target's drafts, and at last its MTP head."""
        drafts = [draft_facts(draft) for draft, _ in self._known.drafts_for(target)]
        head = head_facts(target)
        return drafts if head is None else [*drafts, head]

    def judged(
        self, target: ModelFacts, drafts: Sequence[ModelFacts], *, guessed: bool = False
    ) -> Judged:
        """Return fit and plan of a model.

        Args:
            target: what is known of it.
            drafts: models that could draft for it.
            guessed: its shape is that of a model of about its size.
        """
        try:
            plan = self._plan(self._machine, target, drafts)
        except OutOfMemory as error:
            return Judged(self._without_others(target, error))
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
        """Return whether a model would fit if other programs were closed."""
        try:
            self._plan(_alone(self._machine), target, ())
        except OutOfMemory:
            return Fit(Badge.NO, reason=error.cause)
        said = tr("It would fit if other programs were closed.")
        return Fit(Badge.TIGHT, reason=sentences(error.cause, said))

    def _plan(
        self,
        machine: Machine,
        target: ModelFacts,
        drafts: Sequence[ModelFacts],
        wish: Wish = _AUTO,
    ) -> Plan:
        candidates = [] if target.other_family else [usual_draft(draft) for draft in drafts]
        if (config := target.footprint.config) is not None:
            machine = that_serves(machine, config)
        return Planning(machine, self._speeds, target, candidates, wish).plan()


@cache
def draft_facts(model: CuratedModel) -> ModelFacts:
    """Return a listed draft as it would be loaded."""
    return ModelFacts(model.name, _on_a_diet(model.config, model.parameters), model.context)


@cache
def head_facts(model: CuratedModel) -> ModelFacts | None:
    """Return the MTP head in a listed model's files as it would be loaded; None without one."""
    head = head_of_listed(model)
    if head is None:
        return None
    held = in_format(shortened(head, OWN_ROWS), WeightFormat.Q4)
    return ModelFacts("MTP head", held, model.context)


def _badge(plan: Plan, target: ModelFacts) -> tuple[Badge, str]:
    """Return the badge of a plan and the sentence that explains it."""
    if plan.context < min(COMFORTABLE_CONTEXT, target.max_positions):
        said = tr("It leaves a context of {context} tokens only.")
        room = said.format(context=number(plan.context, ",d"))
        return Badge.TIGHT, sentences(plan.reasons[0], room)
    layers = len(target.footprint.blocks)
    if not plan.layers_on_gpu:
        return Badge.CPU, plan.reasons[0]
    whole = plan.layers_on_gpu == layers and plan.head_on_gpu
    return (Badge.GPU if whole else Badge.SPLIT), plan.reasons[0]


def _alone(machine: Machine) -> Machine:
    """Return the machine with other programs closed."""
    host = machine.host
    most = max(host.memory_available, host.memory_total - _SYSTEM - host_reserve(host))
    accelerators = tuple(
        replace(found, memory_free=max(found.memory_free or 0, _most_of(found.memory_total)))
        for found in machine.accelerators
    )
    return replace(machine, host=replace(host, memory_available=most), accelerators=accelerators)


def _most_of(total: int | None) -> int:
    return int((total or 0) * (1 - _DISPLAY))


def _facts(model: LocalModel) -> ModelFacts | None:
    config = model.config
    if isinstance(config, DraftOnly) and not config.is_head:
        config = config.config
    if not isinstance(config, ModelConfig):
        return None
    weights = choose_format(WeightFormat.AUTO, weight_count(config), quantised=_quantised(model))
    if weights is WeightFormat.STORED:
        held = of_stored(config, model.kind, model.weight_bytes)
    else:
        held = in_format(config, weights)
    return ModelFacts(model.name, held, config.max_positions)


def _draft(model: LocalModel) -> ModelFacts | None:
    """Return a stand-alone draft as it would be loaded."""
    config = model.config
    if not isinstance(config, ModelConfig):
        return _facts(model)
    return ModelFacts(model.name, _on_a_diet(config, weight_count(config)), config.max_positions)


def _on_a_diet(config: ModelConfig, weights: int) -> Footprint:
    """Return about what a draft takes that is packed for speed, with the rows of its shortlist."""
    if choose_format(WeightFormat.AUTO, weights) is WeightFormat.F32:
        return in_format(config, WeightFormat.F32)
    return in_format(shortened(config), WeightFormat.Q4)


def _quantised(model: LocalModel) -> bool:
    return model.gguf is not None or model.kind == "MXFP4"


def _head(target: ModelConfig, draft: LocalModel, name: str) -> ModelFacts | None:
    """Return a feature head as it would be loaded beside its target; None for other drafts."""
    head = draft.config
    if not isinstance(head, DraftOnly) or not head.is_head:
        return None
    config = head.for_target(target, draft.name, name)
    weights = choose_format(WeightFormat.AUTO, weight_count(config))
    return ModelFacts(draft.name, footprint(config, weights), config.max_positions)
