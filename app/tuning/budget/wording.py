"""Budgets in words. No Qt."""

from __future__ import annotations

from itertools import pairwise

from app.engine_link.plan_texts import mode_name
from app.tuning.budget.model import GIB, BudgetModel, MeasuredPoint
from app.widgets.memory_parts import MemoryPart, Stack
from engine.events.models import Curve, CurvePoint
from engine.language import listed, number, sentences, tr
from engine.language.units import gibibytes, memory, tokens_per_s
from engine.machine.facts import CPU, Accelerator, Machine

_HARDLY = 1.01
"""Speed-up up to which "nothing is gained"."""
_ROOM = GIB // 4


def card_words(card: Accelerator | None) -> str:
    """The accelerator in the middle of a sentence, by its kind."""
    if card is not None and card.simulated:
        return tr("the simulated GPU")
    return tr("the GPU")


def sentence(model: BudgetModel, budget: int | None) -> str:
    """Return the result of a budget, or of Auto, in words."""
    point = model.at(budget)
    if point is None:
        return model.main.refusal or tr("There is no data yet for this model on this computer.")
    parts = [layers_words(model, point)]
    if point.draft_device not in (None, CPU):
        parts.append(tr("draft on {device}").format(device=card_words(model.card)))
    low, high = model.range_of(point)
    return tr("{layers}, {size}, about {speed} tokens/s ({low} to {high})").format(
        layers=listed(parts),
        size=size_words(point.vram),
        speed=tokens_per_s(point.tokens_per_s, about=True),
        low=tokens_per_s(low, about=True),
        high=tokens_per_s(high, about=True),
    )


def layers_words(model: BudgetModel, point: CurvePoint) -> str:
    """Return the number of a step's layers on the GPU, in words."""
    some, every, device = point.layers_on_gpu, model.main.layers, card_words(model.card)
    if not some:
        return tr("No layers on {device}").format(device=device)
    if some == every:
        return tr("All {all} layers on {device}").format(all=number(every), device=device)
    said = tr("{some} of {all} layers on {device}")
    return said.format(some=number(some), all=number(every), device=device)


def mode_words(model: BudgetModel, budget: int | None) -> str:
    """The mode that a budget leads to, and whether it fits."""
    point = model.at(budget)
    if point is None:
        return ""
    said = tr("Runs as {mode}.").format(mode=mode_name(point.mode))
    if model.fits(budget):
        return said
    return sentences(said, tr("That does not fit now: other programs use too much memory."))


def knee_words(model: BudgetModel) -> str:
    """Return where more memory stops to pay; empty where it never does, as far as it can be had."""
    at = model.at(None)
    if at is None:
        return ""
    if (rival := model.rival) is not None:
        return _idle_words(model, at, rival)
    last = model.points[model.last]
    if at is last and not _idle(model):
        return ""
    if not at.vram:
        return tr("GPU memory does not make this model faster.")
    if last.tokens_per_s <= at.tokens_per_s * _HARDLY:
        return tr("More than {size} brings no speed.").format(size=memory(at.vram))
    return tr("More than {size} brings hardly any speed.").format(size=memory(at.vram))


def _idle_words(model: BudgetModel, at: CurvePoint, rival: Curve) -> str:
    """Return why a mode leaves the GPU alone whatever the budget, against one that does not."""
    best = rival.at_best
    return tr(
        "{wished} uses no GPU memory at any budget: {mode} reaches about {speed} "
        "tokens/s here, {rival} with {size} about {other}."
    ).format(
        wished=mode_name(model.main.mode),
        mode=mode_name(at.mode),
        speed=tokens_per_s(at.tokens_per_s, about=True),
        rival=mode_name(rival.mode),
        size=size_words(best.vram),
        other=tokens_per_s(best.tokens_per_s, about=True),
    )


def _idle(model: BudgetModel) -> bool:
    """Return whether another step would fit behind the last one, but none is there."""
    sizes = [point.vram for point in model.points]
    widest = max((b - a for a, b in pairwise(sizes)), default=0)
    return bool(sizes[-1]) and model.limit - sizes[-1] > max(widest, _ROOM)


def forbidden_words(model: BudgetModel) -> str:
    """Return why not all of the GPU can be had; empty where it can."""
    others, reserve = memory(model.others), memory(model.reserve)
    if model.others and model.reserve:
        said = tr("Other programs use {others}, {reserve} are reserved.")
        return said.format(others=others, reserve=reserve)
    if model.others:
        return tr("Other programs use {others}.").format(others=others)
    if model.reserve:
        return tr("{reserve} are reserved.").format(reserve=reserve)
    return ""


def without_card(machine: Machine | None = None) -> str:
    """Return why there is nothing to choose."""
    reasons = [
        tr("{name} is not used: {reason}.").format(name=card.name, reason=card.unusable)
        for card in (machine.accelerators if machine is not None else ())
        if card.unusable
    ]
    said = tr("There is no GPU memory to set: everything runs in this computer's memory.")
    return sentences(said, *reasons)


def card_title(model: BudgetModel) -> str:
    """The card's memory, by the name of the card."""
    if model.card is not None and model.card.simulated:
        return tr("Memory of the simulated GPU")
    if model.card is None:
        return tr("Memory of the GPU")
    return tr("Memory of {device}").format(device=model.card.name)


def host_title() -> str:
    """The PC's memory."""
    return tr("Memory of this computer")


def size_words(size: int) -> str:
    """Return a size that may be nothing, in words."""
    return memory(size) if size else gibibytes(0, "d")


def change_words(now: int | None, then: int) -> str:
    """Return a size, or from what to what it changes, in words."""
    before, after = None if now is None else size_words(now), size_words(then)
    if before is None or before == after:
        return after
    return tr("{before} → {after}").format(before=before, after=after)


def stack_words(name: str, now: Stack | None, then: Stack) -> str:
    """Return a device's memory in a sentence."""
    parts = [
        tr("{part} {size}").format(part=tr(part), size=words) for part, words in rows(now, then)
    ]
    said = tr("{name}, {size}: {parts}.").format(
        name=name, size=memory(then.total), parts=listed(parts)
    )
    return sentences(said, over_words(then))


def over_words(then: Stack) -> str:
    """Return how much memory is missing; empty where all fits."""
    return tr("{size} too much.").format(size=memory(then.over)) if then.over else ""


def rows(now: Stack | None, then: Stack) -> list[tuple[MemoryPart, str]]:
    """The parts that are there, now or then, with their sizes."""
    found = []
    for part in MemoryPart:
        before, after = None if now is None else now.of(part), then.of(part)
        if before or after:
            found.append((part, change_words(before, after)))
    return found


def measured_words(seen: MeasuredPoint) -> str:
    """Return the description of a measured dot."""
    return tr("Measured {when}: {speed} tokens/s with {size}, {mode}").format(
        when=seen.when_words,
        speed=tokens_per_s(seen.tokens_per_s),
        size=size_words(seen.vram),
        mode=mode_name(seen.mode),
    )


def curve_words(model: BudgetModel) -> str:
    """The curve from its beginning to its end, its knee, what is in the way, what was measured."""
    if not model.points:
        return sentence(model, None)
    first, last = model.points[0], model.at(model.steps[model.last]) or model.points[-1]
    said = tr("From about {slow} tokens/s with {little} to {fast} with {much}.").format(
        slow=tokens_per_s(first.tokens_per_s, about=True),
        little=size_words(first.vram),
        fast=tokens_per_s(last.tokens_per_s, about=True),
        much=size_words(last.vram),
    )
    others = [
        tr("{mode}: up to {speed} tokens/s.").format(
            mode=mode_name(curve.mode),
            speed=tokens_per_s(curve.points[-1].tokens_per_s, about=True),
        )
        for curve in model.curves[1:]
        if curve.points
    ]
    seen = [tr("{said}.").format(said=measured_words(each)) for each in model.measured]
    return sentences(said, knee_words(model), forbidden_words(model), *others, *seen)
