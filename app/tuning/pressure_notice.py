"""The notice about other programs on the GPU: one, gone when it is over."""

from __future__ import annotations

from PySide6.QtCore import QObject

from app import notices
from app.engine_link.plan_texts import about_speed
from app.notices import Action, Notice
from app.tuning.pressure import Offer, Pressure
from engine.events import PlanSummary
from engine.language import listed, sentences, tr
from engine.language.units import memory
from engine.machine.facts import CPU


class PressureNotice(QObject):
    """Puts what `Pressure` offers before the user, and takes it away again."""

    def __init__(self, pressure: Pressure) -> None:
        super().__init__(pressure)
        self._pressure = pressure
        self._shown: Notice | None = None
        pressure.offered.connect(self._show)
        pressure.over.connect(self._withdraw)

    def _show(self, offer: Offer) -> None:
        self._withdraw()
        choices: list[Action] = []
        if offer.load is not None:
            choices.append((_button(offer), lambda: self._pressure.take(offer)))
        choices.append((tr("Leave as it is"), lambda: None))
        self._shown = notices.offer(
            *_words(offer), choices=choices, left=lambda: self._pressure.leave(offer)
        )

    def _withdraw(self) -> None:
        notices.withdraw(self._shown)


def _words(offer: Offer) -> tuple[str, str]:
    """Return what has happened, and what that means."""
    from app.tuning.refusal import holder_words  # not for the first picture

    if offer.back:
        return (
            tr("{device} has free memory again.").format(device=offer.device),
            tr("The model can use as much as before."),
        )
    said = tr("Other programs now use {size} of {device}.").format(
        size=memory(offer.taken), device=offer.device
    )
    named = [each for each in offer.holders if each.nbytes is not None] or offer.holders
    who = tr("Most of it: {programs}.").format(programs=listed(map(holder_words, named)))
    means = tr("The model no longer fits beside them, so answers may become slow.")
    return said, sentences(who if named else "", means)


def _button(offer: Offer) -> str:
    words = tr("Use it again") if offer.back else tr("Use less")
    return "\n".join(filter(None, (words, _facts(offer.plan))))


def _facts(plan: PlanSummary | None) -> str:
    """Return the GPU memory of a plan, and its speed."""
    if plan is None:
        return ""
    there = sum(each.total for each in plan.memory if each.device != CPU)
    size = memory(there) if there else tr("CPU")
    if plan.tokens_per_s is None:
        return size
    return tr("{size}, {speed}").format(size=size, speed=about_speed(plan.tokens_per_s))
