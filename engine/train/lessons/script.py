"""Written conversations with choices: a small text format, and what can be drawn from it.

A file of `resources/lessons` looks like this::

    # A comment.
    @animal = a cat | a dog | a small grey mouse
    @country / capital:
      France / Paris
      Italy / Rome

    U: Tell me a story about {animal}.
    U: {I'd like|I want} a story with {animal} in it.
    A: Once there was {animal} that lived in an old mill. ...
    A: Long ago, {animal} found a key. ...
    U: What did it find?
    A: It found a key.

Lines of the same speaker below each other are ways to say the same; an empty line ends the
conversation. `{a|b}` is a choice, and may hold others; `{animal}` is a slot, the same wherever it
comes again in a conversation, `{animal.2}` another value of the same list, `{Animal}` the same with
a capital letter. Columns of a table are drawn together: where `{country}` is Italy, `{capital}` is
Rome. What follows from a way of asking is tied to it by a mark: `U[x]: ...` is answered
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
_LIST = re.compile(r"@(?P<names>[a-z_]+(?: / [a-z_]+)*)(?: = (?P<values>.+)|:)")
_INNERMOST = re.compile(r"\{([^{}]*)\}")
_SLOT = re.compile(r"(?P<name>[A-Za-z][a-z_]*)(?:\.(?P<number>\d))?")
_SLOT_IN_TEXT = re.compile(r"\{([A-Za-z][a-z_]*)(?:\.\d)?\}")
_ROLES = {"U": Role.USER, "A": Role.ASSISTANT}

_Slots = dict[tuple[tuple[str, ...], str | None], tuple[str, ...]]
"""The rows that a conversation has drawn so far, by table and number."""


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
class Table:
    """A list, or several whose values belong together row by row."""

    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Script:
    """A conversation with its choices.

    Attributes:
        source: the file's name without its ending.
        turns: the user's first, the assistant's last.
        tables: where the values of each slot stand.
    """

    source: str
    turns: tuple[Turn, ...]
    tables: Mapping[str, Table] = field(repr=False)

    @property
    def rows(self) -> int:
        """Of the longest table whose columns it brings together, each of which is to be learned."""
        words = [way.words for turn in self.turns for way in turn.ways]
        names = {slot[1].lower() for each in words for slot in _SLOT_IN_TEXT.finditer(each)}
        joined = [
            len(table.rows)
            for table in set(self.tables.values())
            if len(names.intersection(table.names)) > 1
        ]
        return max(joined, default=0)

    def drawn(self, rng: random.Random) -> Example:
        """One of the conversations."""
        slots: _Slots = {}
        mark, messages = "", []
        for turn in self.turns:
            way = rng.choice(turn.answering(mark) if mark else turn.ways)
            mark = way.mark or mark
            text = self._filled(way.words, slots, rng)
            messages.append(Message(turn.role, text.replace("\\n", "\n")))
        return Example(tuple(messages), source=self.source)

    def _filled(self, words: str, slots: _Slots, rng: random.Random) -> str:
        while (found := _INNERMOST.search(words)) is not None:
            inside = found[1]
            if "|" in inside:
                value = rng.choice(inside.split("|"))
            else:
                value = self._slot(inside, slots, rng)
            words = words[: found.start()] + value + words[found.end() :]
        return words

    def _slot(self, key: str, slots: _Slots, rng: random.Random) -> str:
        parts = _SLOT.fullmatch(key)
        table = None if parts is None else self.tables.get(parts["name"].lower())
        if parts is None or table is None:
            raise ScriptError(f"{self.source}: there is no list for {{{key}}}")
        name = parts["name"]
        place = table.names, parts["number"]
        if place not in slots:
            taken = {row for (names, _), row in slots.items() if names == table.names}
            free = [row for row in table.rows if row not in taken]
            slots[place] = rng.choice(free or table.rows)
        value = slots[place][table.names.index(name.lower())]
        return value[:1].upper() + value[1:] if name[0].isupper() else value


def read_scripts(file: Path) -> list[Script]:
    """All conversations of a file.

    Raises:
        ScriptError: a line that is none of the format's, or turns out of order.
    """
    reader = _Reader(file.name)
    for number, line in enumerate([*file.read_text("utf-8").splitlines(), ""], start=1):
        reader.take(line.rstrip(), number)
    return reader.scripts


class _Reader:
    """Takes a file line by line."""

    def __init__(self, name: str) -> None:
        self.scripts: list[Script] = []
        self._name = name
        self._place = ""
        self._tables: dict[str, Table] = {}
        self._turns: list[Turn] = []
        self._open: Table | None = None

    def take(self, line: str, number: int) -> None:
        """The next line."""
        self._place = f"{self._name}:{number}"
        if self._open is not None and line.startswith("  "):
            self._open = self._keep(self._open.names, (*self._open.rows, self._row(line)))
            return
        if self._open is not None and not self._open.rows:
            raise ScriptError(f"{self._place}: a table without rows before it")
        self._open = None
        if not line:
            self._end()
        elif line.startswith("@"):
            self._begin_table(line)
        elif not line.startswith("#"):
            _add(self._turns, line, self._place)

    def _end(self) -> None:
        if self._turns:
            script = Script(self._name.split(".")[0], tuple(self._turns), self._tables)
            self.scripts.append(_checked(script, self._place))
        self._turns = []

    def _begin_table(self, line: str) -> None:
        found = _LIST.fullmatch(line)
        if found is None:
            raise ScriptError(f"{self._place}: not a list: {line[:60]}")
        names = tuple(found["names"].split(" / "))
        if found["values"] is None:
            self._open = Table(names, ())
        else:
            self._keep(names, tuple(map(self._row, found["values"].split(" | "))))

    def _row(self, text: str) -> tuple[str, ...]:
        return tuple(value.strip() for value in text.split(" / "))

    def _keep(self, names: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> Table:
        if any(len(row) != len(names) for row in rows):
            raise ScriptError(f"{self._place}: as many values as columns, with / between them")
        table = Table(names, rows)
        self._tables |= dict.fromkeys(names, table)
        return table


def draw(scripts: list[Script], rng: random.Random, each: int, each_row: int) -> Iterator[Example]:
    """All scripts, in an order that is drawn.

    Args:
        each: how often a script is drawn at least.
        each_row: how often a row of a table is, on the average.
    """
    order = [one for one in scripts for _ in range(max(each, each_row * one.rows))]
    rng.shuffle(order)
    for script in order:
        yield script.drawn(rng)


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
        slots: _Slots = {}
        for way in turn.ways:
            for _ in range(_choices(way.words)):
                script._filled(way.words, slots, rng)  # noqa: SLF001 - its own reader
    return script


def _choices(words: str) -> int:
    return 1 + words.count("|")
