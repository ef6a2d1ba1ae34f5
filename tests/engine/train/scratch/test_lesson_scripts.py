"""Written lessons: the format, and everything that ships in it."""

from __future__ import annotations

import operator
import random
import re
from importlib.resources import files
from pathlib import Path

import pytest

from engine.request import Role
from engine.train.lessons.all import lessons
from engine.train.lessons.computed import lesson
from engine.train.lessons.script import ScriptError, draw, read_scripts

LESSONS = sorted(Path(str(files("resources") / "lessons")).glob("*.txt"))

SIGNS = {"+": operator.add, "-": operator.sub, "x": operator.mul, "/": operator.truediv}

TEXT = """\
# Of animals.
@animal = a cat | an owl

U: {Tell me|I want} a story about {animal}.
A: {Animal} met {animal.2}.\\nThey were friends.
U[first]: Who met whom?
U[second]: Where was it?
A[first]: {Animal} met {animal.2}.
A[second]: In the woods.
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "animals.txt"
    file.write_text(text, "utf-8")
    return file


def test_slots_keep_their_value_and_marks_tie_answers_to_questions(tmp_path: Path) -> None:
    (script,) = read_scripts(written(tmp_path, TEXT))
    rng, seen = random.Random(1), set()
    for _ in range(50):
        ask, story, further, answer = script.drawn(rng).messages
        animal, other = ("cat", "owl") if "cat" in ask.text else ("owl", "cat")
        assert re.fullmatch(rf"An? {animal} met an? {other}\.\nThey were friends\.", story.text)
        if further.text == "Who met whom?":
            assert answer.text == story.text.split("\n")[0]
        else:
            assert answer.text == "In the woods."
        seen.add((ask.text, further.text))
    assert len(seen) == 2 * 2 * 2


def test_every_script_is_drawn_as_often_as_its_table_needs(tmp_path: Path) -> None:
    table = "@a / b:\n  C / D\n  E / F\n  G / H\n"
    text = f"U: One?\nA: One.\n\n{table}\nU: {{a}}?\nA: {{b}}.\n\nU: {{a}}\nA: Two."
    scripts = read_scripts(written(tmp_path, text))
    drawn = [example.messages for example in draw(scripts, random.Random(0), 5, 4)]
    asked = [messages[0].text for messages in drawn]
    assert asked.count("One?") == 5
    assert len([text for text in asked if text in {"C?", "E?", "G?"}]) == 12
    assert len([text for text in asked if text in {"C", "E", "G"}]) == 5
    assert asked != sorted(asked)


def test_columns_of_a_table_are_drawn_together(tmp_path: Path) -> None:
    table = "@country / capital:\n  France / Paris\n  Italy / Rome\n  Spain / Madrid\n"
    (script,) = read_scripts(
        written(tmp_path, table + "U: {country} and {country.2}?\nA: {capital}, {capital.2}.")
    )
    rows = {"France": "Paris", "Italy": "Rome", "Spain": "Madrid"}
    rng, seen = random.Random(3), set()
    for _ in range(60):
        ask, answer = (message.text for message in script.drawn(rng).messages)
        first, second = ask.rstrip("?").split(" and ")
        assert first != second
        assert answer == f"{rows[first]}, {rows[second]}."
        seen.add(ask)
    assert len(seen) == 6


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("U: Hello\n", "begins with U: and ends with A:"),
        ("A: Hello\n", "begins with U: and ends with A:"),
        ("Hello\n", "neither U: nor A:"),
        ("U: {Hello\nA: Hi\n", "a brace is open"),
        ("U: {nobody} is here\nA: Hi\n", "there is no list for {nobody}"),
        ("@a: b\n", "not a list"),
        ("@a / b = C / D | E\n", "as many values as columns"),
        ("@a / b:\n  C / D\n  E / F / G\n", "as many values as columns"),
        ("@a / b:\nU: {a}\nA: {b}\n", "a table without rows"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ScriptError, match=re.escape(words)):
        read_scripts(written(tmp_path, text))


@pytest.mark.parametrize("file", LESSONS, ids=lambda file: file.stem)
def test_what_ships_can_be_read_and_leaves_no_brace(file: Path) -> None:
    rng = random.Random(0)
    indented = file.stem.startswith(("app_python", "app_lists"))  # programs
    wrong = re.compile(r"\{[a-z_]+(\.\d)?\}|[|]" + ("" if indented else "|  "))
    for script in read_scripts(file):
        for _ in range(8):
            for message in script.drawn(rng).messages:
                assert message.text.strip() == message.text
                assert not wrong.search(message.text), message.text


def test_the_same_seed_gives_the_same_lessons() -> None:
    one, other = (list(lessons("honest", random.Random(5))) for _ in range(2))
    assert one == other
    assert one


def test_computed_sums_are_right() -> None:
    rng, checked = random.Random(2), 0
    for _ in range(3000):
        example = lesson(rng)
        assert [message.role for message in example.messages[:2]] == [Role.USER, Role.ASSISTANT]
        for message in example.messages[1::2]:
            for a, sign, b, result in re.findall(
                r"(?<![-+x/] )\b(\d+) ([-+x/]) (\d+) = (\d+)(?![\d.]\d)", message.text
            ):
                assert SIGNS[sign](int(a), int(b)) == int(result), message.text
                checked += 1
    assert checked > 1000


def test_computed_programs_run() -> None:
    rng, seen = random.Random(3), set()
    for _ in range(2000):
        answer = lesson(rng).messages[1].text
        code = re.search(r"```python\n(.*?)\n```", answer, re.DOTALL)
        if code is not None and "open(" not in code[1]:
            compile(code[1], "lesson", "exec")
            seen.add(code[1])
    assert len(seen) > 10
