"""What the documents name exists: commands with their options, targets of make, files, headings."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import launch
from app.showcase.measure import command as measure
from engine import cli
from engine.cli.models_command import completed

ROOT = Path(__file__).parent.parent
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "resources" / "models" / "MODEL_CARD.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
GONE = "†"
"""Marks commands that only an earlier commit has, in measurements.md."""


def code(text: str) -> Iterator[str]:
    """Yield the lines of code blocks and the code within sentences, but for what is marked gone."""
    blocks = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
    for block in blocks.findall(text):
        lines = block.replace("\\\n", " ").splitlines()
        yield from (line for line in lines if GONE not in line)
    for within, mark in re.findall(r"`([^`]+)`(\s*†)?", blocks.sub("", text)):
        if not mark:
            yield " ".join(within.split())


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words behind every `duotail`."""
    start = r"(?:\$ |.*\| |\w+=\S+ |xvfb-run (?:-a )?)*(?:\.venv[/\\]\w+[/\\])?duotail(?: (.*))?"
    for line in code(text):
        if found := re.fullmatch(start, line.strip()):
            words = shlex.split(found[1] or "", comments=True)
            shell = next((at for at, word in enumerate(words) if word in ("|", ">")), None)
            yield [word for word in words[:shell] if word != "..."]


def parser_of(words: list[str]) -> tuple[argparse.ArgumentParser, list[str]]:
    if words[:2] == ["bench", "ui"]:
        return measure.make_parser(), words[2:]
    if words and words[0] in launch.COMMANDS:
        return cli.command_parser(), completed(words)
    return launch.make_parser(), words


def unknown(words: list[str]) -> str | None:
    """Return the first word that a command does not know; values that stand for others pass."""
    parser, rest = parser_of(words)
    left = iter(rest)
    for word in left:
        below = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
        if word.startswith("-"):
            action = parser._option_string_actions.get(word)
            if action is None:
                return word
            value = next(left, None) if action.nargs != 0 else None
            if value and action.choices and value not in map(str, action.choices):
                return f"{word} {value}"
        elif below:
            if word not in below[0].choices:
                return word
            parser = below[0].choices[word]
        elif not any(not action.option_strings for action in parser._actions):
            return word
    return None


def anchors(path: Path) -> set[str]:
    """Return the links to headings that a document has, as hosts of Markdown make them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def broken(path: Path) -> Iterator[str]:
    """Yield what a document names and what is not there."""
    text = path.read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for words in commands(text):
        if wrong := unknown(words):
            yield f"duotail {shlex.join(words)}: {wrong}"
    for line in code(text):
        if (made := re.match(r"make ([\w-]+)", line)) and made[1] not in targets:
            yield line
    for link in re.findall(r"\]\((?!https?:)([^)]+)\)", text):
        file, _, heading = link.partition("#")
        target = path.parent / file if file else path
        if not target.exists() or (heading and heading not in anchors(target)):
            yield link


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_what_a_document_names_exists(path: Path) -> None:
    assert list(broken(path)) == []


def test_what_does_not_exist_is_found(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text(
        "`duotail bench lanes` `duotail chat --quick` `DUOTAIL_ISA=avx2 .venv/bin/duotail chat\n"
        "--mode fast --seed 1` [gone](gone.md) [here](#nowhere)\n"
        "```\nmake coffee   # now\necho a | duotail chat --loud > b\n```\n"
        "`duotail bench lanes` † `duotail models search qwen3 --json` `duotail`\n"
    )
    assert len(list(broken(document))) == 7


def test_documents_show_commands() -> None:
    shown = [words for path in DOCUMENTS for words in commands(path.read_text(encoding="utf-8"))]
    assert len(shown) > 50


def test_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 280
