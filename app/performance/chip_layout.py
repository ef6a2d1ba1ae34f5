"""Layout of an answer's tokens, round by round, and which of them lie in view. No Qt.

Rounds are laid out once and kept: an answer that grows costs only what is new.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from time import perf_counter

from app.performance.tokens import Fate, RoundTokens, Token
from engine.language import later

_LOOK_AT_CLOCK = 16
_LONGEST = 200
"""Letters shown of one token: a refused continuation may be long."""
_SIGNS = {"\n": "\u21b5", "\r": "\u240d", "\t": "\u21e5"}
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
HALF = "\u2026"
"""Stands for a token that completes no letter."""


class TokenDisplay(StrEnum):
    """Ways of showing tokens; the values are texts for `tr`."""

    ACCEPTED = later("Underlined")
    """Running text, the drafted tokens underlined."""
    TRACE = later("Trace")
    """A line for each round, with what was refused."""


@dataclass(frozen=True, slots=True)
class Measures:
    """Logical pixels.

    Attributes:
        width: returns the width of a text.
        line: distance from one line of chips to the next.
        gutter: before the chips of a round.
        pad: inside a chip, at each side.
        mark: room for the tick of an accepted token.
    """

    width: Callable[[str], float]
    line: float
    gutter: float = 0.0
    pad: float = 5.0
    gap: float = 4.0
    mark: float = 0.0


@dataclass(slots=True)
class Direction:
    """Direction of a paragraph: that of its first letter that has one."""

    rtl: bool | None = None

    def hear(self, text: str) -> None:
        """Take in more text of the paragraph."""
        if self.rtl is None:
            self.rtl = _direction(text)


@dataclass(frozen=True, slots=True)
class PlacedToken:
    """A token, or its part in one line, and its place; `x` from where lines of it begin."""

    token: Token
    shown: str
    x: float
    y: float
    width: float
    direction: Direction
    end: float
    """Pixel where lines end."""
    start: float
    """Pixel where lines begin, whatever the direction."""
    clipped: bool = False
    """True if it is too long for a line."""

    @property
    def left(self) -> float:
        """Return the distance from the left edge."""
        if self.direction.rtl:
            return self.end - (self.x - self.start) - self.width
        return self.x


@dataclass(frozen=True, slots=True)
class ChipRow:
    """A round that has been laid out."""

    round: RoundTokens
    top: float
    bottom: float
    chips: tuple[PlacedToken, ...]


class ChipLayout:
    """Grows with the answer; a new width or mode needs a new one."""

    def __init__(self, mode: TokenDisplay, room: float, measures: Measures) -> None:
        self.mode, self.room, self._measures = mode, room, measures
        self.rows: list[ChipRow] = []
        self._x, self._y = 0.0, measures.pad / 2
        self._direction = Direction()

    @property
    def height(self) -> float:
        """Return the height of everything laid out."""
        return self.rows[-1].bottom if self.rows else 0.0

    def grow(self, rounds: Sequence[RoundTokens], seconds: float) -> bool:
        """Lay out what is new, for about so long; whether everything is done."""
        until = perf_counter() + seconds
        for count, each in enumerate(islice(rounds, len(self.rows), None), start=1):
            self.rows.append(self._row(each))
            if count % _LOOK_AT_CLOCK == 0 and perf_counter() > until:
                break
        return len(self.rows) >= len(rounds)

    def between(self, top: float, bottom: float) -> Sequence[ChipRow]:
        """Rows of which something lies between two heights."""
        first = bisect_left(self.rows, top, key=lambda row: row.bottom)
        last = bisect_left(self.rows, bottom, key=lambda row: row.top)
        return self.rows[first:last]

    def first(self, y: float) -> int:
        """The first row that reaches below a height; 0 where there is none."""
        index = bisect_left(self.rows, y, key=lambda row: row.bottom)
        return index if index < len(self.rows) else 0

    def at(self, x: float, y: float) -> tuple[int, int] | None:
        """Row and chip at a place."""
        first = bisect_left(self.rows, y, key=lambda row: row.bottom)
        for index in range(first, len(self.rows)):
            row = self.rows[index]
            if row.top > y:
                break
            for place, chip in enumerate(row.chips):
                if chip.y <= y < chip.y + self._measures.line and (
                    chip.left <= x < chip.left + chip.width
                ):
                    return index, place
        return None

    # -- laying out ------------------------------------------------------------------------

    def _row(self, each: RoundTokens) -> ChipRow:
        if self.mode is TokenDisplay.TRACE:
            return self._traced(each)
        return self._running(each)

    def _traced(self, each: RoundTokens) -> ChipRow:
        measures, direction = self._measures, Direction()
        direction.hear(each.text)
        top, start = self._y, measures.gutter
        x, y, chips = start, top, []
        for token in each.tokens():
            shown = traced(token)
            mark = measures.mark if token.fate is not Fate.OWN else 0.0
            width = measures.width(shown) + 2 * measures.pad + mark
            clipped = width > self.room - start
            width = self.room - start if clipped else width
            if x > start and x + width > self.room:
                x, y = start, y + measures.line
            chips.append(
                PlacedToken(token, shown, x, y, width, direction, self.room, start, clipped)
            )
            x += width + measures.gap
        self._y = y + measures.line
        return ChipRow(each, top, self._y, tuple(chips))

    def _running(self, each: RoundTokens) -> ChipRow:
        measures, chips = self._measures, []
        top, start = self._y, measures.gutter
        end = self.room - start
        for token in each.tokens():
            if token.fate is Fate.REJECTED or token.end <= token.start:
                continue
            for text in _LINES.findall(token.text):
                self._direction.hear(text)
                shown = _signs(text)
                width = measures.width(shown)
                clipped = width > end - start
                width = end - start if clipped else width
                x = max(self._x, start)
                if x > start and x + width > end:
                    x, self._y = start, self._y + measures.line
                chips.append(
                    PlacedToken(
                        token, shown, x, self._y, width, self._direction, end, start, clipped
                    )
                )
                self._x = x + width
                if text.endswith("\n"):
                    self._x, self._y = start, self._y + measures.line
                    self._direction = Direction()
        bottom = max((chip.y for chip in chips), default=top) + measures.line
        return ChipRow(each, chips[0].y if chips else top, bottom, tuple(chips))


def traced(token: Token) -> str:
    """A token by itself: spaces at its ends are to be seen."""
    text = _signs(token.text[:_LONGEST])
    if not text:
        return HALF
    inner = text.strip(" ")
    before = len(text) - len(text.lstrip(" "))
    after = len(text) - before - len(inner)
    return "\u00b7" * before + inner + "\u00b7" * after


def _signs(text: str) -> str:
    """A text on one line, with signs for what cannot be seen."""
    if text.isprintable():
        return text
    return "".join(_SIGNS.get(letter, letter if _seen(letter) else "\u25ab") for letter in text)


def _seen(letter: str) -> bool:
    return letter.isprintable() or unicodedata.category(letter) in ("Cf", "Zs", "Co")


def _direction(text: str) -> bool | None:
    for letter in text if not text.isascii() else ():
        kind = unicodedata.bidirectional(letter)
        if kind in ("R", "AL"):
            return True
        if kind == "L":
            return False
    return False if any(letter.isalpha() for letter in text) else None
