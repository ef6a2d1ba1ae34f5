"""The start after one that ended while a model was loading: it asks before that is loaded again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from app.models.choice import ModelChoice
from app.notices import offer, withdraw
from engine.events import PlanReady
from engine.language import tr


def offer_starter(
    models: ModelChoice, model: Path, starter: Path | None, begin: Callable[[], None]
) -> None:
    """Offer the starter model in the place of one that may have ended Duotail.

    Args:
        models: load what is chosen.
        model: was being loaded.
        starter: the starter model, where it is on this computer; else the empty chat offers it.
        begin: called before a load begins.
    """

    def load(path: Path) -> None:
        begin()
        models.load(path)

    name = models.running.place_name(model)
    choices = [(tr("Try {model} again").format(model=name), lambda: load(model))]
    if starter is not None:
        choices.insert(0, (tr("Load the starter model"), lambda: load(starter)))
    notice = offer(
        tr("Duotail ended while it was loading {model}.").format(model=name),
        tr("It now runs in safe mode, which is slower; the next start is normal again."),
        choices=choices,
    )
    models.bridge.subscribe(PlanReady, lambda _event: withdraw(notice))
