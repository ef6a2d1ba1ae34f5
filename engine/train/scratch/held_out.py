"""Questions that nothing was learned from, to measure the finished model and its drafts with."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

from engine.request import Role
from engine.train.checkpoint import write_whole
from engine.train.conversations import Example
from engine.train.scratch.corpus import examples_of
from engine.train.scratch.recipe import LESSONS, Recipe, Source
from engine.train.scratch.screening import Screen, is_held_out

EACH = 24
"""Questions of a category at most."""
_LONGEST = 400
"""Characters of a question."""


def write_held_out(file: Path, recipe: Recipe, data: Path, screen: Screen) -> None:
    """The first of what the last phase holds out, as `duotail bench` reads prompts and messages.

    Raises:
        UserFixable: data are missing, or the disk is full.
    """
    asked: defaultdict[str, dict[str, Example]] = defaultdict(dict)
    for source in recipe.phases[-1].sources:
        for example in examples_of(source, data, recipe.seed):
            if not is_held_out(example) or not screen.passes(example):
                continue
            questions = asked[_category(source, example)]
            first = example.messages[0] if example.messages else None
            if first is None or first.role is not Role.USER or len(first.text) > _LONGEST:
                continue
            if len(questions) < EACH:
                questions.setdefault(first.text, example)
    rows = [
        json.dumps({"prompt": text, "category": category, "messages": _rows(example)})
        for category, questions in asked.items()
        for text, example in questions.items()
    ]
    write_whole(file, ("\n".join(rows) + "\n").encode())


def _rows(example: Example) -> list[dict[str, str]]:
    return [{"role": str(each.role), "content": each.text} for each in example.messages]


def _category(source: Source, example: Example) -> str:
    """The theme of a lesson, which its file's name begins with; otherwise the file."""
    if source.name.startswith(LESSONS):
        return example.source.split("_")[0]
    return Path(source.name).name.split(".")[0]
