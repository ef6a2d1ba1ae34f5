"""The models that can be chosen: the bundled ones and those used before. Reads files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from app.engine_link.background import numpy_whole
from engine.errors import UserFixable


@dataclass(frozen=True, slots=True)
class Installed:
    """A model that passed its check; `kind` names the types of its weights, as in "Q4_K_M".

    `head`: it drafts for another model, and is none by itself.
    """

    path: Path
    name: str
    kind: str
    weight_bytes: int
    head: bool = False


def installed(recent: Iterable[Path]) -> list[Installed]:
    """The usable ones, bundled models first, then `recent`; what is gone is left out."""
    numpy_whole()
    from engine.hub.local import bundled_models

    try:
        shipped = list(bundled_models().values())
    except UserFixable:
        shipped = []
    found: dict[Path, Installed] = {}
    for path in [*shipped, *recent]:
        if path not in found:
            try:
                found[path] = inspect(path)
            except (UserFixable, OSError):
                continue
    return list(found.values())


def inspect(path: Path) -> Installed:
    """Check a folder or a file that somebody chose; headers only.

    Raises:
        SeveralModels: a folder with more than one, of which one can be chosen.
        UserFixable: what keeps it from being used, in words.
    """
    numpy_whole()
    from engine.model.heads.description import DraftOnly
    from engine.model.local_model import LocalModel

    model = LocalModel.inspect(path)
    head = isinstance(model.config, DraftOnly)
    return Installed(path, model.name, model.kind, model.weight_bytes, head)
