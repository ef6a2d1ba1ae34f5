"""What `duotail chat` is asked: --prompt, standard input, files; and what it answers in."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from functools import partial
from pathlib import Path
from threading import Timer

import pytest
from command_line import Duotail

import engine.cli.prompt_text
from engine.cli import terminal_text
from engine.cli.prompt_text import add_prompt_options, prompt_text
from engine.cli.standard_input import read_if_it_comes

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 6}, "kind": {"enum": ["cat", "dog"]}},
    "required": ["name", "kind"],
    "additionalProperties": False,
}


def prompt(monkeypatch: pytest.MonkeyPatch, stdin: bytes, *words: str) -> str:
    parser = argparse.ArgumentParser()
    add_prompt_options(parser)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
    return prompt_text(parser.parse_args(words))


def test_standard_input_follows_the_prompt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ask = monkeypatch, b"The sky is blue.\n"
    assert prompt(*ask, "--prompt", "Summarise") == "Summarise\n\nThe sky is blue."
    assert prompt(*ask, "--prompt", "-") == "The sky is blue."
    assert prompt(*ask) == "The sky is blue."
    assert prompt(monkeypatch, b"", "--prompt", "Hello") == "Hello"
    note = tmp_path / "note.txt"
    note.write_text("Buy milk.\n", "utf-8")
    files = "--file", str(note), "--file", str(note)
    assert prompt(monkeypatch, b"", "--prompt", "Read", *files) == (
        "Read\n\nnote.txt:\n\nBuy milk.\n\nnote.txt:\n\nBuy milk."
    )


def test_an_open_pipe_that_brings_nothing_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Programs that start others leave them such pipes."""
    monkeypatch.setattr(engine.cli.prompt_text, "read_if_it_comes", partial(read_if_it_comes, 0.05))
    ours, theirs = os.pipe()
    parser = argparse.ArgumentParser()
    add_prompt_options(parser)
    with os.fdopen(ours) as silent:
        monkeypatch.setattr(sys, "stdin", silent)
        assert prompt_text(parser.parse_args(["--prompt", "Hello"])) == "Hello"
        assert "--file -" in capsys.readouterr().err
        os.close(theirs)


def test_a_file_may_be_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = "--prompt", "Why?", "--file", "-"
    assert prompt(monkeypatch, b"The sky is blue.\n", *asked) == "Why?\n\nThe sky is blue."


def test_a_pipe_that_begins_in_time_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.pipe()
    os.write(theirs, b"The sky is")
    rest = Timer(0.05, lambda: (os.write(theirs, b" blue.\n"), os.close(theirs)))
    with os.fdopen(ours) as pipe:
        monkeypatch.setattr(sys, "stdin", pipe)
        rest.start()
        assert read_if_it_comes(60) == b"The sky is blue.\n"
        rest.join()


def test_files_that_cannot_be_read(duotail: Duotail, tmp_path: Path) -> None:
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\xff")
    for name in ("picture.png", "missing.txt"):
        refused = duotail("chat", "--prompt", "Hi", "--file", tmp_path / name)
        assert refused.code == 2
        assert f"The file “{name}” cannot be read." in refused.err


def test_an_answer_follows_a_schema_or_a_grammar(duotail: Duotail, tmp_path: Path) -> None:
    schema, gbnf = tmp_path / "pet.json", tmp_path / "answer.gbnf"
    schema.write_text(json.dumps(SCHEMA), "utf-8")
    gbnf.write_text('root ::= "yes" | "no"', "utf-8")
    pet = duotail("chat", "--json", "--prompt", "A pet?", "--schema", schema).json
    assert json.loads(pet["text"])["kind"] in ("cat", "dog")
    answer = duotail("chat", "--json", "--prompt", "Is it?", "--grammar", gbnf).json
    assert answer["text"] in ("yes", "no")
    assert answer["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("option", "text", "says"),
    [
        ("--schema", '{"type": "set"}', "Invalid type: set"),
        ("--schema", "{", "The JSON schema cannot be used"),
        ("--grammar", "root ::= nothing", "The grammar cannot be used"),
        ("--grammar", None, "cannot be read"),
    ],
)
def test_grammars_that_cannot_be_used(
    option: str, text: str | None, says: str, duotail: Duotail, tmp_path: Path
) -> None:
    file = tmp_path / "grammar"
    if text is not None:
        file.write_text(text, "utf-8")
    refused = duotail("chat", "--prompt", "Hi", option, file)
    assert refused.code == 2
    assert says in refused.err


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("tty", [True, False])
def test_control_characters_never_reach_a_terminal(
    tty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    title, clear, clipboard = "\x1b]0;gone\x07", "\x1b[2J", "\x1b]52;c;aGk=\x07\x9b1m"
    out = _Terminal() if tty else io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    text = f"a{title}b{clear}c{clipboard}\n\td\r\n"
    terminal_text.write(text)
    if tty:
        assert "\x1b" not in out.getvalue()
        assert not any(ord(each) < 32 and each not in "\n\t" for each in out.getvalue())
        assert "\x9b" not in out.getvalue()
        assert out.getvalue().endswith("\n\td\n")
    else:
        assert out.getvalue() == text
