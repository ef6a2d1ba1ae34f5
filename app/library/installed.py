"""The models that can be chosen: the bundled ones and the folders used before. Reads files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from engine.errors import UserFixable


@dataclass(frozen=True, slots=True)
class Installed:
    """A model folder that passed its check."""

    path: Path
    name: str
    weight_bytes: int


def installed(recent: Iterable[Path]) -> list[Installed]:
    """The usable ones, bundled models first, then `recent`; a folder that is gone is left out."""
    from engine.hub.local import bundled_models_root, bundled_names

    try:
        bundled = [bundled_models_root() / name for name in bundled_names()]
    except UserFixable:
        bundled = []
    found: dict[Path, Installed] = {}
    for path in [*bundled, *recent]:
        if path not in found:
            try:
                found[path] = inspect(path)
            except (UserFixable, OSError):
                continue
    return list(found.values())


def inspect(path: Path) -> Installed:
    """Check a folder that somebody chose; headers only.

    Raises:
        UserFixable: what keeps it from being used, in words.
    """
    from engine.hub.local import ModelFolder

    model = ModelFolder.inspect(path)
    return Installed(path, model.name, model.weight_bytes)
