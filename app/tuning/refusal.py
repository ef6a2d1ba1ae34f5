"""A load that does not fit, in words: what is missing, who holds it, what would fit."""

from __future__ import annotations

from collections.abc import Iterator

from app.engine_link.plan_texts import about_speed
from app.widgets.terms import explained
from engine.errors import UserFixable
from engine.events import Failed, FailureKind, WayOut
from engine.language import listed, sentences, tr
from engine.language.units import memory
from engine.machine.facts import CPU
from engine.machine.memory import DeviceMemory, Holder, Shortage


def refusal(event: Failed) -> UserFixable:
    """The failure in the words of a card, whose buttons are the ways out."""
    lacking, remedy = event.shortage, event.remedy
    own = lacking is not None and lacking.budgeted
    if event.ways_out and own:
        remedy = tr("Raise your own budget, or choose what would fit:")
    elif event.ways_out:
        remedy = tr("Close other programs and try again, or choose what would fit:")
    if lacking is None:
        return UserFixable(event.cause, remedy, event.details)
    details = "\n".join(filter(None, (*_needed(lacking.needed), event.details)))
    return UserFixable(event.cause, sentences(*_missing(lacking), remedy), details)


def may_fit_later(event: Failed) -> bool:
    """Return whether the same load may work another time, with nothing changed by the user here."""
    if event.shortage is not None and event.shortage.budgeted:
        return False
    never = (
        *(FailureKind.ABSENT, FailureKind.NEEDS_PYTORCH),
        *(FailureKind.MODEL_UNUSABLE, FailureKind.NOT_POSSIBLE),
    )
    return event.kind not in never


def button_words(way: WayOut) -> str:
    """Return the text of a button: what is different, and below that the expected speed."""
    if way.tokens_per_s is None:
        return way.words
    return "\n".join([way.words, about_speed(way.tokens_per_s)])


def holder_words(holder: Holder) -> str:
    """Return a program's name, with what it holds where that is known."""
    if holder.nbytes is None:
        return holder.name
    return tr("{name} ({size})").format(name=holder.name, size=memory(holder.nbytes))


def _missing(lacking: Shortage) -> Iterator[str]:
    size = memory(lacking.missing)
    if lacking.device == CPU:
        yield tr("{size} more memory is needed.").format(size=size)
    elif lacking.budgeted:
        said = tr("Your budget on {device} is {size} too small.")
        yield said.format(size=size, device=lacking.name)
    else:
        yield tr("{size} more is needed on {device}.").format(size=size, device=lacking.name)
    if lacking.holders and not lacking.budgeted:
        named = listed(map(holder_words, lacking.holders))
        yield tr("Other programs using much memory: {programs}.").format(programs=named)


def _needed(needed: DeviceMemory) -> Iterator[str]:
    """Yield the memory that the smallest way takes, line by line."""
    line = tr("{purpose}: {size}")
    for purpose, nbytes in (
        (tr("Weights"), needed.target),
        (tr("Draft"), needed.draft),
        (tr("KV cache"), needed.kv),
        (tr("Features"), needed.features),
        (tr("Workspace"), needed.workspace),
        (tr("Driver"), needed.runtime),
        (tr("Total needed"), needed.total),
    ):
        if nbytes:
            yield line.format(purpose=purpose, size=memory(nbytes))
            if meaning := explained(purpose):
                yield f"    {meaning}"
