"""Our own lessons by name."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from engine.errors import UserFixable
from engine.language import listed, tr
from engine.train.conversations import Example
from engine.train.lessons import computed
from engine.train.lessons.script import draw, read_scripts

COMPUTED = "computed"
_EACH = 16
"""How often a written conversation is drawn at least, with other choices each time."""
_EACH_ROW = 8
"""How often a row of its table is."""
_COMPUTED = 60_000
"""How many of the computed ones there are."""


def lessons(name: str, rng: random.Random) -> Iterator[Example]:
    """All of a kind: the written ones of a theme in `resources/lessons`, or the computed ones.

    Raises:
        UserFixable: there is no such kind.
        ScriptError: a written one cannot be read.
    """
    if name == COMPUTED:
        for _ in range(_COMPUTED):
            yield computed.lesson(rng)
        return
    scripts = [script for file in _files(name) for script in read_scripts(file)]
    if not scripts:
        raise UserFixable(
            tr("There are no lessons “{name}”.").format(name=name[:100]),
            tr("Name one of these: {names}.").format(names=listed([COMPUTED, *themes()])),
        )
    yield from draw(scripts, rng, _EACH, _EACH_ROW)


def themes() -> tuple[str, ...]:
    """What the written ones are about: the beginnings of their files' names."""
    return tuple(dict.fromkeys(file.name.split("_")[0] for file in _files("")))


def lessons_digest(name: str) -> str:
    """Another one when a lesson of the kind has changed."""
    found = hashlib.sha256(repr((_EACH, _EACH_ROW, _COMPUTED)).encode())
    for file in [Path(computed.__file__)] if name == COMPUTED else _files(name):
        found.update(file.read_bytes())
    return found.hexdigest()[:16]


def _files(theme: str) -> list[Path]:
    folder = files("resources") / "lessons"
    return sorted(folder.glob(f"{theme or '*'}_*.txt")) if isinstance(folder, Path) else []
