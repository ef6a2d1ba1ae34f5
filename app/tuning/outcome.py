"""Outcome of a wish against what runs now, in a few words. No Qt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.engine_link.measured import Measured
from app.engine_link.plan_texts import (
    about_speed,
    draft_words,
    kind_of_card,
    mode_name,
    short_run_words,
)
from app.settings.profiles import ModelProfile
from engine.commands import KvType, Mode
from engine.events import PlanSummary, Previewed
from engine.events.models import Curve, CurvePoint
from engine.language import later, listed, number, sentences, tr
from engine.language.units import tokens_per_s
from engine.machine.facts import Machine

BITS = {KvType.F16: later("16 bits"), KvType.Q8: later("8 bits")}
"""Types of the numbers in the KV cache, for people."""

_SAME_SPEED = 0.01
"""Relative differences that mean nothing."""


@dataclass(frozen=True, slots=True)
class LoadOutcome:
    """Outcome of a load, as far as a change is told by it.

    Attributes:
        draft: its name; None: nothing drafts.
        draft_known: whether that is known; a curve does not tell.
        tokens_per_s: predicted; None where nothing predicts.
        kv: type of keys and values on the CPU; None: a curve does not tell.
    """

    mode: Mode
    layers_on_gpu: int
    context: int
    draft: str | None = None
    draft_known: bool = False
    tokens_per_s: float | None = None
    kv: KvType | None = None

    @classmethod
    def of_plan(cls, plan: PlanSummary, tokens_per_s: float | None = None) -> LoadOutcome:
        """Return the outcome of a plan; `tokens_per_s` replaces its own prediction."""
        return cls(
            plan.mode,
            plan.layers_on_gpu,
            plan.context,
            plan.draft,
            draft_known=True,
            tokens_per_s=plan.tokens_per_s if tokens_per_s is None else tokens_per_s,
            kv=plan.kv,
        )

    @classmethod
    def of_step(cls, curve: Curve, point: CurvePoint) -> LoadOutcome:
        """Return the outcome of a budget."""
        return cls(
            point.mode,
            point.layers_on_gpu,
            curve.context,
            tokens_per_s=point.tokens_per_s,
        )


def step_of(told: Previewed | None, wish: ModelProfile) -> tuple[Curve, CurvePoint] | None:
    """Return the curve and step of a wish; None where nothing is known or fits."""
    for curve in () if told is None else told.curves:
        point = curve.at(wish.vram)
        if curve.mode is wish.mode and point is not None:
            return curve, point
    return None


def predicted_now(told: Previewed | None, running: ModelProfile, plan: PlanSummary) -> float | None:
    """The speed of what runs, by what is known today; as it was planned where that is not told."""
    if told is not None and told.load.draft == running.draft:
        step = step_of(told, running)
        if step is not None and step[1].layers_on_gpu == plan.layers_on_gpu:
            return step[1].tokens_per_s
    return plan.tokens_per_s


def changes(now: LoadOutcome, then: LoadOutcome, machine: Machine | None) -> str:
    """Return what changes, from and to; empty where nothing differs."""
    parts = []
    arrow = tr("{before} → {after}")
    if then.mode is not now.mode:
        parts.append(arrow.format(before=mode_name(now.mode), after=mode_name(then.mode)))
    if then.layers_on_gpu != now.layers_on_gpu:
        said = tr("{before} → {after} layers on {device}")
        before, after = number(now.layers_on_gpu), number(then.layers_on_gpu)
        parts.append(said.format(before=before, after=after, device=kind_of_card(machine)))
    if now.draft_known and then.draft_known and then.draft != now.draft:
        before, after = (draft_words(each.draft) or tr("no draft") for each in (now, then))
        parts.append(arrow.format(before=before, after=after))
    if then.context != now.context:
        said = tr("context {before} → {after} tokens")
        parts.append(said.format(before=number(now.context), after=number(then.context)))
    if now.kv is not None and then.kv is not None and then.kv is not now.kv:
        said = tr("KV cache {before} → {after}")
        parts.append(said.format(before=tr(BITS[now.kv]), after=tr(BITS[then.kv])))
    if not parts and not _faster(now, then):
        return ""
    if now.tokens_per_s and then.tokens_per_s:
        before = tokens_per_s(now.tokens_per_s, about=True)
        after = tokens_per_s(then.tokens_per_s, about=True)
        if before == after:
            parts.append(tr("about as fast ({speed} tokens/s)").format(speed=after))
        else:
            parts.append(tr("about {before} → {after} tokens/s").format(before=before, after=after))
    elif then.tokens_per_s:
        parts.append(about_speed(then.tokens_per_s))
    return listed(parts)


def _faster(now: LoadOutcome, then: LoadOutcome) -> bool:
    if not now.tokens_per_s or not then.tokens_per_s:
        return False
    return abs(then.tokens_per_s / now.tokens_per_s - 1) > _SAME_SPEED


def now_words(
    plan: PlanSummary,
    machine: Machine | None,
    predicted: float | None,
    measured: Measured | None,
) -> str:
    """Return how the model runs now, the predicted speed and the measured one."""
    said = tr("Now: {how}.").format(how=short_run_words(plan, machine))
    if measured is not None and predicted:
        speeds = tr("About {predicted} tokens/s predicted, {measured} measured.").format(
            predicted=tokens_per_s(predicted, about=True),
            measured=tokens_per_s(measured.tokens_per_s),
        )
    elif measured is not None:
        speeds = tr("{speed} tokens/s measured.").format(speed=tokens_per_s(measured.tokens_per_s))
    elif predicted:
        speeds = tr("About {speed} tokens/s predicted.").format(
            speed=tokens_per_s(predicted, about=True)
        )
    else:
        speeds = ""
    return sentences(said, speeds)


def newest_of(plan: PlanSummary, points: Sequence[Measured]) -> Measured | None:
    """The newest speed that was measured with a plan like this."""
    setup = (plan.mode, plan.layers_on_gpu, plan.draft)
    for point in reversed(points):
        if (point.mode, point.layers_on_gpu, point.draft) == setup:
            return point
    return None
