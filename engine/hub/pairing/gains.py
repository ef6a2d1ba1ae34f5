"""How much faster a target would be with a draft that is here, by the planner."""

from __future__ import annotations

from engine.backend.cpu import choose_format
from engine.commands import Mode, WeightFormat
from engine.errors import UserFixable
from engine.hub.local import LocalModel
from engine.hub.sketch import in_format, of_stored
from engine.machine.facts import Machine
from engine.machine.speeds import Speeds
from engine.model.config import ModelConfig
from engine.model.heads.description import HeadDescription
from engine.model.heads.reduced import ReducedDraft
from engine.plan.facts import ModelFacts, Wish, usual_draft
from engine.plan.footprint import footprint, weight_count
from engine.plan.planner import plan


class Gains:
    """Predicts for one machine; called with a target and a draft that fits it."""

    def __init__(self, machine: Machine, speeds: Speeds) -> None:
        self._machine, self._speeds = machine, speeds

    def __call__(self, target: LocalModel, draft: LocalModel) -> float | None:
        """Tokens a second with drafts in every round over those of the target alone.

        None where nobody knows: the target does not fit, or runs through transformers.
        """
        own = _facts(target)
        if own is None or not isinstance(target.config, ModelConfig):
            return None
        other = _head(target.config, draft, target.name)
        other = _facts(draft) if other is None else other
        if other is None:
            return None
        alone, drafted = Wish(Mode.PLAIN, None, False, False), Wish(Mode.AUTO, None, False, True)
        try:
            before = plan(self._machine, self._speeds, own, (), alone).tokens_per_s
            candidates = [usual_draft(other)]
            after = plan(self._machine, self._speeds, own, candidates, drafted).tokens_per_s
        except UserFixable:
            return None
        return after / before if before and after else None


def _facts(model: LocalModel) -> ModelFacts | None:
    config = model.config
    if isinstance(config, ReducedDraft):
        config = config.config
    if not isinstance(config, ModelConfig):
        return None
    weights = choose_format(WeightFormat.AUTO, weight_count(config), quantised=_quantised(model))
    if weights is WeightFormat.STORED:
        held = of_stored(config, model.kind, model.weight_bytes)
    else:
        held = in_format(config, weights)
    return ModelFacts(model.name, held, config.max_positions)


def _quantised(model: LocalModel) -> bool:
    return model.gguf is not None or model.kind == "MXFP4"


def _head(target: ModelConfig, draft: LocalModel, name: str) -> ModelFacts | None:
    """A feature head beside its target."""
    head = draft.config
    if not isinstance(head, HeadDescription):
        return None
    config = head.for_target(target, draft.name, name)
    weights = choose_format(WeightFormat.AUTO, weight_count(config))
    return ModelFacts(draft.name, footprint(config, weights), config.max_positions)
