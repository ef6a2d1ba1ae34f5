"""Models on this computer that requests may load."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from engine.commands import Load
from engine.hub.shelf.shelf import ModelShelf
from engine.server.models import Catalogue


def shelf_catalogue(
    shelf: ModelShelf,
    command: Callable[[Path], Load],
    more: Callable[[], Iterable[Path]] = lambda: (),
) -> Catalogue:
    """Return the usable models of a shelf by name, not those of other programs.

    Args:
        shelf: where they are listed.
        command: how one is loaded; called in another thread.
        more: paths of models that the shelf does not know.
    """

    def usable() -> dict[str, Load]:
        models = shelf.models(more(), elsewhere=False)
        return {
            model.name: replace(command(model.path), after_answer=True)
            for model in reversed(models)  # the first one of a name counts
            if not (model.problem or model.head)
        }

    return usable
