"""Written conversations with choices: a small text format, and what can be drawn from it.

A file of `resources/lessons` looks like this::

    # A comment.
    @animal = a cat | a dog | a small grey mouse

    U: Tell me a story about {animal}.
    U: {I'd like|I want} a story with {animal} in it.
    A: Once there was {animal} that lived in an old mill. ...
    A: Long ago, {animal} found a key. ...
    U: What did it find?
    A: It found a key.

Lines of the same speaker below each other are ways to say the same; an empty line ends the
conversation. `{a|b}` is a choice, and may hold others; `{animal}` is a slot, the same wherever it
comes again in a conversation, `{animal.2}` another value of the same list, `{Animal}` the same with
a capital letter. What follows from a way of asking is tied to it by a mark: `U[x]: ...` is answered
by one of `A[x]: ...` or of the `A:` without marks. `\\n` is a line break.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engine.request import Message, Role
from engine.train.conversations import Example

_LINE = re.compile(r"(?P<who>[UA])(?:\[(?P<mark>\w+)\])?: (?P<words>.+)")
_LIST = re.compile(r"@(?P<name>[a-z_]+) = (?P<values>.+)")
_INNERMOST = re.compile(r"\{([^{}]*)\}")
_SLOT = re.compile(r"(?P<name>[A-Za-z][a-z_]*)(?:\.(?P<number>\d))?")
_ROLES = {"U": Role.USER, "A": Role.ASSISTANT}


class ScriptError(Exception):
    """A lesson file says something that cannot be read; the message names file and line."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to say something; `mark` ties an answer to a way of asking."""

    words: str
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """What one of the two says, in one of these ways."""

    role: Role
    ways: tuple[Way, ...]

    def answering(self, mark: str) -> tuple[Way, ...]:
        """Those that go with what was marked so."""
        tied = tuple(way for way in self.ways if way.mark == mark)
        return tied or tuple(way for way in self.ways if not way.mark) or self.ways


@dataclass(frozen=True, slots=True)
class Script:
    """A conversation with its choices.

    Attributes:
        source: the file's name without its ending.
        turns: the user's first, the assistant's last.
        lists: the values of each slot.
    """

    source: str
    turns: tuple[Turn, ...]
    lists: Mapping[str, tuple[str, ...]] = field(repr=False)

    @property
    def variety(self) -> int:
        """How many ways there are to go through it, slots not counted, as a weight for drawing."""
        count = 1
        for turn in self.turns:
            count *= sum(_choices(way.words) for way in turn.ways)
        return count

    def drawn(self, rng: random.Random) -> Example:
        """One of the conversations."""
        slots: dict[str, str] = {}
        mark, messages = "", []
        for turn in self.turns:
            way = rng.choice(turn.answering(mark) if mark else turn.ways)
            mark = way.mark or mark
            text = self._filled(way.words, slots, rng)
            messages.append(Message(turn.role, text.replace("\\n", "\n")))
        return Example(tuple(messages))

    def _filled(self, words: str, slots: dict[str, str], rng: random.Random) -> str:
        while (found := _INNERMOST.search(words)) is not None:
            inside = found[1]
            if "|" in inside:
                value = rng.choice(inside.split("|"))
            else:
                value = self._slot(inside, slots, rng)
            words = words[: found.start()] + value + words[found.end() :]
        return words

    def _slot(self, key: str, slots: dict[str, str], rng: random.Random) -> str:
        parts = _SLOT.fullmatch(key)
        if parts is None or (values := self.lists.get(parts["name"].lower())) is None:
            raise ScriptError(f"{self.source}: there is no list for {{{key}}}")
        name, lower = parts["name"], key.lower()
        if lower not in slots:
            prefix = name.lower()
            taken = {value for slot, value in slots.items() if slot.split(".")[0] == prefix}
            free = [value for value in values if value not in taken]
            slots[lower] = rng.choice(free or list(values))
        value = slots[lower]
        return value[:1].upper() + value[1:] if name[0].isupper() else value


def read_scripts(file: Path) -> list[Script]:
    """All conversations of a file.

    Raises:
        ScriptError: a line that is none of the format's, or turns out of order.
    """
    scripts: list[Script] = []
    lists: dict[str, tuple[str, ...]] = {}
    turns: list[Turn] = []
    lines = file.read_text("utf-8").splitlines()
    for number, line in enumerate([*lines, ""], start=1):
        place = f"{file.name}:{number}"
        if not line.strip():
            if turns:
                scripts.append(_checked(Script(file.stem, tuple(turns), lists), place))
            turns = []
        elif line.startswith("@"):
            found = _LIST.fullmatch(line.rstrip())
            if found is None:
                raise ScriptError(f"{place}: not a list: {line[:60]}")
            lists[found["name"]] = tuple(value.strip() for value in found["values"].split(" | "))
        elif not line.startswith("#"):
            _add(turns, line.rstrip(), place)
    return scripts


def draw(scripts: list[Script], rng: random.Random, count: int) -> Iterator[Example]:
    """So many conversations, all scripts in turn, each as often as any other give or take one."""
    order: list[Script] = []
    for _ in range(count):
        if not order:
            order = rng.sample(scripts, len(scripts))
        yield order.pop().drawn(rng)


def _add(turns: list[Turn], line: str, place: str) -> None:
    found = _LINE.fullmatch(line)
    if found is None:
        raise ScriptError(f"{place}: neither U: nor A: {line[:60]}")
    role, way = _ROLES[found["who"]], Way(found["words"], found["mark"] or "")
    if way.words.count("{") != way.words.count("}"):
        raise ScriptError(f"{place}: a brace is open")
    if turns and turns[-1].role is role:
        turns[-1] = Turn(role, (*turns[-1].ways, way))
    else:
        turns.append(Turn(role, (way,)))


def _checked(script: Script, place: str) -> Script:
    roles = [turn.role for turn in script.turns]
    if roles[0] is not Role.USER or roles[-1] is not Role.ASSISTANT:
        raise ScriptError(f"{place}: a conversation begins with U: and ends with A:")
    rng = random.Random(0)  # noqa: S311 - finds slots without a list
    for turn in script.turns:
        slots: dict[str, str] = {}
        for way in turn.ways:
            for _ in range(_choices(way.words)):
                script._filled(way.words, slots, rng)  # noqa: SLF001 - its own reader
    return script


def _choices(words: str) -> int:
    return 1 + words.count("|")
