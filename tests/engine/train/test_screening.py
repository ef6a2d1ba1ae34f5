"""What may be learned from: neither the benchmarks, nor what is held out."""

from __future__ import annotations

import json
from pathlib import Path

from engine.request import Message, Role
from engine.train.conversations import Example
from engine.train.screening import Screen, bench_texts, is_held_out


def said(*texts: str) -> Example:
    roles = (Role.USER, Role.ASSISTANT)
    return Example(tuple(Message(roles[at % 2], text) for at, text in enumerate(texts)))


def test_the_benchmarks_are_not_learned_from() -> None:
    asked = "Write a function that takes a list of numbers and returns its sorted unique elements."
    screen = Screen([asked, "Who wrote Hamlet?"])
    assert not screen.passes(said(f"Please help. {asked.upper()}", "Here it is."))
    assert not screen.passes(said("who wrote hamlet", "Shakespeare."))
    assert not screen.passes(Example(text=f"He said: {asked}"))
    assert screen.passes(said("Who wrote Hamlet and Macbeth?", "Shakespeare."))
    assert screen.passes(said("Write a function that adds two numbers.", "Here it is."))


def test_all_that_a_benchmark_asks_is_read_however_deep_it_lies(tmp_path: Path) -> None:
    rows = [{"turns": ["First?", "Second?"]}, {"prompt": {"text": "Third?"}, "number": 3}]
    folder = tmp_path / "unified"
    folder.mkdir()
    (folder / "some.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    assert list(bench_texts(tmp_path)) == ["First?", "Second?", "Third?"]


def test_near_twins_are_held_out_together() -> None:
    questions = [f"What is {number} plus one?" for number in range(3000)]
    out = [text for text in questions if is_held_out(said(text, "A number."))]
    assert 10 < len(out) < 80  # 30 are expected
    for text in out[:5]:
        assert is_held_out(said(text.upper().replace("?", " ?!"), "Another answer."))
