"""Every option and every command of `duotail` is explained by one clear phrase."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

import pytest

from app import launch
from app.showcase.measure import command
from engine import cli

FRAGMENTS = {"as", "at", "before", "beside", "by", "default", "for", "from", "in", "of", "on"}
FRAGMENTS |= {
    "or",
    "per",
    "so",
    "than",
    "to",
    "what",
    "where",
    "whether",
    "which",
    "with",
    "without",
}
"""First words of phrases that only make sense after the option's name."""
SHORTEST = 3
"""Words of a help text."""


def arguments_of(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str | None]]:
    """Yield every option, positional and command below a parser, with its help."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help for choice in action._choices_actions}
            for name, commands in action.choices.items():
                yield f"{parser.prog} {name}", helps.get(name)
                yield from arguments_of(commands)
        else:
            name = action.option_strings[-1] if action.option_strings else action.dest
            yield f"{parser.prog} {name}", action.help


def flaw(text: str | None) -> str | None:
    """Return what is wrong with a help text, or None."""
    if not text:
        return "no help"
    said = re.sub(r"^with --[a-z-]+: ", "", text)
    words = said.split()
    if len(words) < SHORTEST:
        return "too short to explain anything"
    if words[0].lower().strip(":,") in FRAGMENTS:
        return "begins in the middle of a sentence"
    if words[0][0].isupper() and words[0][1:].islower():
        return "begins with a capital letter, as no other does"
    if said[-1] in ".,:;" or said.count("(") != said.count(")"):
        return "ends like an unfinished or a full sentence, as no other does"
    return None


PARSERS = (cli.command_parser(), launch.make_parser(), command.make_parser())
ARGUMENTS = [found for parser in PARSERS for found in arguments_of(parser)]


@pytest.mark.parametrize(("name", "text"), ARGUMENTS, ids=[name for name, _ in ARGUMENTS])
def test_every_argument_is_explained(name: str, text: str | None) -> None:
    assert flaw(text) is None, f"{name}: {text}"


def test_all_commands_are_walked() -> None:
    names = {name for name, _ in ARGUMENTS}
    assert {
        "duotail chat --top-k",
        "duotail bench shapes --trees",
        "duotail train-draft --rate",
    } <= names
    assert {
        "duotail models download repo",
        "duotail --data-dir",
        "duotail bench ui --pace",
    } <= names


@pytest.mark.parametrize("prog", ["duotail", "duotail bench ui"])
def test_helps_can_be_formatted(prog: str) -> None:
    """A lone percent sign in a help text raises only when somebody asks for the help."""
    for parser in PARSERS:
        if parser.prog == prog:
            for each in [parser, *parsers_below(parser)]:
                assert each.format_help().startswith("usage:")


def parsers_below(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield the parsers of all sub-commands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield below
                yield from parsers_below(below)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "runs",
        "of each token",
        "default: all of them",
        "The model to run",
        "a text to show.",
        "a text (to show",
    ],
)
def test_texts_without_the_shape_are_found(text: str | None) -> None:
    assert flaw(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "the target model (default: the starter)",
        "VRAM that may be used",
        "JSON Lines file of prompts",
    ],
)
def test_clear_texts_are_not_found(text: str) -> None:
    assert flaw(text) is None
