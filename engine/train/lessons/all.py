"""Our own lessons by name."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from engine.errors import UserFixable
from engine.language import tr
from engine.train.conversations import Example
from engine.train.lessons import computed
from engine.train.lessons.script import draw, read_scripts

WRITTEN, COMPUTED = "written", "computed"
_EACH = 16
"""How often a written conversation is drawn at least, with other choices each time."""
_EACH_ROW = 8
"""How often a row of its table is."""
_SUMS = 24_000


def lessons(name: str, rng: random.Random) -> Iterator[Example]:
    """All of a kind: the written ones of `resources/lessons`, or those that are computed.

    Raises:
        UserFixable: there is no such kind.
        ScriptError: a written one cannot be read.
    """
    if name == WRITTEN:
        scripts = [script for file in _files() for script in read_scripts(file)]
        yield from draw(scripts, rng, _EACH, _EACH_ROW)
    elif name == COMPUTED:
        for _ in range(_SUMS):
            yield computed.lesson(rng)
    else:
        raise UserFixable(
            tr("There are no lessons “{name}”.").format(name=name[:100]),
            tr("Write lessons:written or lessons:computed."),
        )


def lessons_digest() -> str:
    """Another one when any lesson has changed."""
    found = hashlib.sha256()
    for file in (*_files(), Path(computed.__file__)):
        found.update(file.read_bytes())
    return found.hexdigest()[:16]


def _files() -> list[Path]:
    folder = files("resources") / "lessons"
    return sorted(folder.glob("*.txt")) if isinstance(folder, Path) else []
