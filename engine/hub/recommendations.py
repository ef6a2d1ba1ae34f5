"""The models that suit a machine best: a handful of different ones, by what the planner says."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from engine.hub.advice import Badge, Fit, Recommendation, RecommendedRole
from engine.hub.curated import Curated, CuratedModel, curated
from engine.hub.predictions import Predictions
from engine.hub.sketch import usual_bytes
from engine.machine.facts import Machine
from engine.machine.speeds import Speeds

MOST = 6
_READING, _BRISK, _PATIENT = 8.0, 30.0, 2.5
"""Tokens a second: as fast as people read, clearly faster, and what one still waits for."""
_THINKING = 12.0
"""A model that thinks first writes much that nobody reads."""
_SMALL_BYTES, _USUAL_BYTES, _LARGE_BYTES = 1_400_000_000, 10_000_000_000, 35_000_000_000
"""Bytes of a download that takes a minute or two, one that people wait for, one of an evening."""
_MOST_AT_EIGHT_BITS = 2_000_000_000
"""Small models lose more by 4 bits, and are fast."""
_RUNS = (Badge.GPU, Badge.SPLIT, Badge.CPU)


@dataclass(frozen=True, slots=True)
class _Choice:
    """A listed model as it would run."""

    model: CuratedModel
    variant: str
    fit: Fit
    rate: float
    draft: CuratedModel | None

    @property
    def nbytes(self) -> int:
        return usual_bytes(self.model, self.variant)


def recommendations(
    machine: Machine, speeds: Speeds, known: Curated | None = None, most: int = MOST
) -> list[Recommendation]:
    """Return what to fetch for this machine, what most people want first; a second at most.

    Empty where nothing of the list runs well here.
    """
    listed = curated() if known is None else known
    predictions = Predictions(machine, speeds, listed)
    choices = [_choice(model, predictions, listed) for model in listed.models if model.level]
    runs = [each for each in choices if each.fit.badge in _RUNS and each.rate >= _PATIENT]
    found: list[Recommendation] = []
    taken: dict[str, _Choice] = {}
    for role, pick in _PICKS.items():
        chosen = pick([each for each in runs if each.model.key not in taken])
        if chosen is None or len(found) == most:
            continue
        if role is RecommendedRole.BEST and any(
            each.model.level >= chosen.model.level for each in taken.values()
        ):
            continue
        taken[chosen.model.key] = chosen
        found.append(_told(role, chosen))
    return found


def variant_for(model: CuratedModel) -> str:
    """Return the quantisation that serves a model well."""
    if model.family == "gpt_oss":
        return "MXFP4"
    return "Q8_0" if model.parameters <= _MOST_AT_EIGHT_BITS else "Q4_K_M"


def _choice(model: CuratedModel, predictions: Predictions, known: Curated) -> _Choice:
    variant = variant_for(model)
    judged = predictions.listed(model, variant)
    plan = judged.plan
    rate = (plan.tokens_per_s if plan is not None else None) or 0.0
    drafts = [draft for draft, _ in known.drafts_for(model)]
    which = None if plan is None else plan.draft
    # Behind them is the head in the model's own files, which nobody has to fetch.
    chosen = None if which is None or which >= len(drafts) else drafts[which]
    return _Choice(model, variant, judged.fit, rate, chosen)


def _told(role: RecommendedRole, choice: _Choice) -> Recommendation:
    model, draft = choice.model, choice.draft
    nbytes = choice.nbytes
    if draft is not None:
        nbytes += usual_bytes(draft, variant_for(draft))
    return Recommendation(
        role=role,
        name=model.name,
        repo=model.gguf[0],
        variant=choice.variant,
        nbytes=nbytes,
        licence=model.licence,
        fit=choice.fit,
        reason=choice.fit.reason,
        draft=None if draft is None else draft.name,
        draft_repo=None if draft is None else draft.gguf[0],
        draft_variant=None if draft is None else variant_for(draft),
    )


# ---- picks -----------------------------------------------------------------------------------


def _best(
    choices: Iterable[_Choice], rate: float, what: str = "", nbytes: int = _LARGE_BYTES
) -> _Choice | None:
    """Return the best answers at a speed and a size; of equals the faster one."""
    able = [
        each
        for each in choices
        if each.rate >= rate and each.nbytes <= nbytes and (not what or what in each.model.good_at)
    ]
    return max(able, key=lambda each: (each.model.level, each.rate), default=None)


def _balanced(choices: list[_Choice]) -> _Choice | None:
    """Return a model for any question; where nothing is pleasant to read at, the fastest."""
    found = _best(choices, _READING, "chat", _USUAL_BYTES)
    return found or max(choices, key=lambda each: each.rate, default=None)


_PICKS: dict[RecommendedRole, Callable[[list[_Choice]], _Choice | None]] = {
    RecommendedRole.BALANCED: _balanced,
    RecommendedRole.FAST: lambda choices: _best(choices, _BRISK, "chat", _USUAL_BYTES),
    RecommendedRole.BEST: lambda choices: _best(choices, _PATIENT),
    RecommendedRole.REASONING: lambda choices: _best(choices, _THINKING, "reasoning"),
    RecommendedRole.CODE: lambda choices: _best(choices, _READING, "code"),
    RecommendedRole.SMALL: lambda choices: _best(choices, _READING, "chat", _SMALL_BYTES),
}
"""Choices in the order of the list; each model is recommended once."""
