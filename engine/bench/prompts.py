"""Benchmark prompts: JSON Lines of {"turns": [text, ...]} or {"prompt": text}, or plain text.

A file whose name ends in ".txt" has one prompt a line, and comments behind a #.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.errors import UserFixable
from engine.language import tr

EVERYDAY = "everyday"
"""The category of prompts that name none."""


@dataclass(frozen=True, slots=True)
class BenchPrompt:
    """A user's first message."""

    category: str
    text: str


def read_prompts(path: Path) -> list[BenchPrompt]:
    """All prompts of the file.

    Raises:
        UserFixable: no such file, or a line that is no prompt.
    """
    try:
        # Only a line feed ends a line of JSON Lines; str.splitlines knows more.
        lines = path.read_text("utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserFixable(
            tr("The prompts in {path} cannot be read.").format(path=path),
            tr("Give a JSON Lines file in UTF-8."),
            str(error),
        ) from error
    if path.suffix == ".txt":
        texts = [line.strip() for line in lines]
        prompts = [BenchPrompt(EVERYDAY, text) for text in texts if text and text[0] != "#"]
    else:
        read = enumerate(lines, 1)
        prompts = [_read(line, number, path) for number, line in read if line.strip()]
    if not prompts:
        raise UserFixable(
            tr("{path} holds no prompts.").format(path=path),
            tr('Add lines like {"prompt": "Hello"}.'),
        )
    return prompts


def _read(line: str, number: int, path: Path) -> BenchPrompt:
    try:
        row = json.loads(line)
        turns = [row["prompt"]] if "prompt" in row else row["turns"]
        text = turns[0]
        if not isinstance(turns, list) or not isinstance(text, str) or not text.strip():
            raise ValueError("no text")
        return BenchPrompt(str(row.get("category", EVERYDAY)), text)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise UserFixable(
            tr("Line {number} of {path} is not a prompt.").format(number=number, path=path),
            tr('Each line needs {"prompt": text} or {"turns": [text]}, and may name a "category".'),
            str(error),
        ) from error


def first_of_each_category(prompts: Sequence[BenchPrompt], most: int | None) -> list[BenchPrompt]:
    """At most `most` prompts of every category, in file order."""
    counts: dict[str, int] = defaultdict(int)
    chosen = []
    for prompt in prompts:
        counts[prompt.category] += 1
        if most is None or counts[prompt.category] <= most:
            chosen.append(prompt)
    return chosen
