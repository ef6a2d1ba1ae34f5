"""Budgets in words. No Qt."""

from __future__ import annotations

from app.tuning.budget.model import BudgetModel
from app.tuning.budget.parts import Part, Stack
from app.tuning.words import mode_name
from engine.language import listed, number, sentences, tr
from engine.plan.curve import CurvePoint
from engine.plan.machine import CPU, Accelerator, Machine
from engine.units import memory

_HARDLY = 1.01
"""So much faster is still "nothing is gained"."""


def card_words(card: Accelerator | None) -> str:
    """The accelerator in the middle of a sentence, by its kind."""
    if card is not None and card.simulated:
        return tr("the simulated GPU")
    return tr("the GPU")


def speed(value: float) -> str:
    """Tokens per second, without the unit."""
    return number(value, ".1f" if value < 9.95 else ",.0f")


def sentence(model: BudgetModel, ceiling: int | None) -> str:
    """What a ceiling, or Auto, comes to."""
    point = model.at(ceiling)
    if point is None:
        return model.main.refusal or tr("Nothing is known yet about this model on this PC.")
    parts = [layers_words(model, point)]
    if point.draft_device not in (None, CPU):
        parts.append(tr("draft on {device}").format(device=card_words(model.card)))
    low, high = model.range_of(point)
    return tr("{layers}, {size}, about {speed} tokens/s ({low} to {high})").format(
        layers=listed(parts),
        size=memory(point.vram),
        speed=speed(point.tokens_per_s),
        low=speed(low),
        high=speed(high),
    )


def layers_words(model: BudgetModel, point: CurvePoint) -> str:
    """How many layers a step has on the card."""
    some, every, device = point.layers_on_gpu, model.main.layers, card_words(model.card)
    if not some:
        return tr("No layers on {device}").format(device=device)
    if some == every:
        return tr("All {all} layers on {device}").format(all=number(every), device=device)
    said = tr("{some} of {all} layers on {device}")
    return said.format(some=number(some), all=number(every), device=device)


def mode_words(model: BudgetModel, ceiling: int | None) -> str:
    """The mode that a ceiling leads to, and whether it fits."""
    point = model.at(ceiling)
    if point is None:
        return ""
    said = tr("Runs as {mode}.").format(mode=mode_name(point.mode))
    if model.fits(ceiling):
        return said
    return sentences(said, tr("That does not fit now: other programs hold too much."))


def knee_words(model: BudgetModel) -> str:
    """Where more memory stops to pay; empty where it never does."""
    if not model.points:
        return ""
    last, at = model.points[model.last], model.at(None)
    if at is None or at is last:
        return ""
    if not at.vram:
        return tr("Graphics memory brings no speed for this model.")
    if last.tokens_per_s <= at.tokens_per_s * _HARDLY:
        return tr("Beyond {size} nothing is gained.").format(size=memory(at.vram))
    return tr("Beyond {size} hardly anything is gained.").format(size=memory(at.vram))


def forbidden_words(model: BudgetModel) -> str:
    """Why not all of the card can be had; empty where it can."""
    others, reserve = memory(model.others), memory(model.reserve)
    if model.others and model.reserve:
        said = tr("Other programs use {others}, {reserve} stay in reserve.")
        return said.format(others=others, reserve=reserve)
    if model.others:
        return tr("Other programs use {others}.").format(others=others)
    if model.reserve:
        return tr("{reserve} stay in reserve.").format(reserve=reserve)
    return ""


def without_card(machine: Machine | None) -> str:
    """Why there is nothing to choose."""
    reasons = [
        tr("{name} is not used: {reason}.").format(name=card.name, reason=card.unusable)
        for card in (machine.accelerators if machine is not None else ())
        if card.unusable
    ]
    said = tr("There is no graphics memory to choose from: everything runs in the PC's memory.")
    return sentences(said, *reasons)


def change_words(now: int | None, then: int) -> str:
    """A size, or from what to what it changes."""
    before, after = None if now is None else memory(now), memory(then)
    if before is None or before == after:
        return after
    return tr("{before} → {after}").format(before=before, after=after)


def stack_words(name: str, now: Stack | None, then: Stack) -> str:
    """A device's memory in a sentence."""
    parts = [
        tr("{part} {size}").format(part=tr(part), size=words) for part, words in rows(now, then)
    ]
    said = tr("{device} with {size}: {parts}.")
    return said.format(device=name, size=memory(then.total), parts=listed(parts))


def rows(now: Stack | None, then: Stack) -> list[tuple[Part, str]]:
    """The parts that are there, now or then, with their sizes."""
    found = []
    for part in Part:
        before, after = None if now is None else now.of(part), then.of(part)
        if before or after:
            found.append((part, change_words(before, after)))
    return found
