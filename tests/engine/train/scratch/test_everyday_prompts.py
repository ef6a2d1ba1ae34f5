"""The prompts that the bundled model is judged by are in nothing that it learns from."""

from __future__ import annotations

import random
from pathlib import Path

from engine.train.lessons.all import lessons
from engine.train.scratch.screening import Screen

FILE = Path(__file__).parents[1] / "everyday_prompts.txt"


def prompts() -> list[str]:
    lines = FILE.read_text("utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_there_are_forty_and_each_is_another() -> None:
    assert len({prompt.lower() for prompt in prompts()}) == 40


def test_no_written_lesson_asks_one_of_them() -> None:
    screen = Screen(prompts())
    for example in lessons("written", random.Random(1)):
        assert screen.passes(example), example.messages


def test_computed_ones_that_ask_one_are_left_out() -> None:
    screen, left_out = Screen(prompts()), 0
    asked = {prompt.lower() for prompt in prompts()}
    for example in lessons("computed", random.Random(1)):
        if example.messages[0].text.lower() in asked:
            assert not screen.passes(example)
            left_out += 1
    assert left_out
