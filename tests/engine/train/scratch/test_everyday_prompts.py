"""The prompts that the bundled model is judged by are in nothing that it learns from."""

from __future__ import annotations

import random
import re
from itertools import islice
from pathlib import Path

import pytest

from engine.train.lessons.all import COMPUTED, lessons, themes
from engine.train.scratch.screening import Screen

FILE = Path(__file__).parents[3] / "everyday_prompts.txt"


def prompts() -> list[str]:
    lines = FILE.read_text("utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_there_are_forty_and_each_is_another() -> None:
    assert len({prompt.lower() for prompt in prompts()}) == 40


@pytest.mark.parametrize("theme", [*themes(), COMPUTED])
def test_lessons_that_ask_one_are_left_out_and_few(theme: str) -> None:
    screen, asked = Screen(prompts()), {folded(prompt) for prompt in prompts()}
    examples = list(islice(lessons(theme, random.Random(1)), 20_000))
    left_out = [example for example in examples if not screen.passes(example)]
    assert len(left_out) < 0.02 * len(examples)
    for example in examples:
        if any(folded(message.text) in asked for message in example.messages):
            assert not screen.passes(example)


def test_some_are_met_by_chance() -> None:
    screen = Screen(prompts())
    assert not all(screen.passes(example) for example in lessons("computed", random.Random(1)))


def folded(text: str) -> str:
    return " ".join(re.findall(r"[a-z0-9]+", text.lower()))
