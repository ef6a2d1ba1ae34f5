"""Kinds of text, told by line while an answer is being written.

A rough classifier by lines: code between fences, thoughts between their tags, formulas that stand
alone, lists and tables by how their lines begin; all else is prose.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from enum import StrEnum


class TextKind(StrEnum):
    """Kinds of text in the order shown; what is learnt of them is kept on disk by these names."""

    PROSE = "prose"
    CODE = "code"
    LIST = "list"
    MATHS = "maths"
    THINKING = "thinking"


_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_ITEM = re.compile(r"\s*(?:[-*+\u2022]|\d{1,9}[.)])(?:\s|$)|\s*\|")
_THINK = re.compile(r"<(/?)think(?:ing)?>")
_LINE_OF_MATHS = re.compile(r"\s*(?:\$[^$]+\$|\\\(.+\\\)|\$\$.+\$\$|\\\[.+\\\])[.,;]?\s*$")
_OPENS = {"$$": "$$", "\\[": "\\]"}


@dataclass(slots=True)
class KindsOfText:
    """Stretches of one answer, by where they start in UTF-16 units."""

    _starts: list[int] = field(default_factory=list)
    _kinds: list[TextKind] = field(default_factory=list)
    settled: int = 0
    """Unit before which all is decided; the line that begins here is still growing."""
    _line: str = ""
    _fence: str = ""
    _maths: str = ""
    _thinking: bool = False
    _thought: bool = False
    _listed: bool = False

    def begin_at(self, offset: int) -> None:
        """The text goes on from here: what was before is not known. Counts before any text."""
        if not self._starts and not self._line:
            self.settled = offset

    def feed(self, text: str) -> None:
        """Take in more of the answer."""
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self._note(self._take(line))
            self.settled += _units(line) + 1

    def at(self, offset: int) -> TextKind:
        """The kind of the letter there; in the line that is growing, as it looks now."""
        if offset >= self.settled or not self._starts:
            return self.now
        return self._kinds[max(bisect_right(self._starts, offset) - 1, 0)]

    @property
    def began_inside_a_thought(self) -> bool:
        """True if a thought ended that the template had opened: all before it was thought."""
        return self._thought

    @property
    def now(self) -> TextKind:
        """The kind of the line that is growing, as it looks now."""
        if self._thinking:
            return TextKind.THINKING
        if self._fence:
            return TextKind.CODE
        if self._maths:
            return TextKind.MATHS
        return TextKind.CODE if _FENCE.match(self._line) else self._kind_of(self._line)

    def _note(self, kind: TextKind) -> None:
        if not self._kinds or self._kinds[-1] is not kind:
            self._starts.append(self.settled)
            self._kinds.append(kind)

    def _take(self, line: str) -> TextKind:
        """The kind of a whole line."""
        if "think" in line and not self._fence and (tags := _THINK.findall(line)):
            return self._tagged(tags)
        if self._thinking:
            return TextKind.THINKING
        if self._fence:
            if line.strip().startswith(self._fence) and not line.strip().strip(self._fence[0]):
                self._fence = ""
            return TextKind.CODE
        if self._maths:
            if self._maths in line:
                self._maths = ""
            return TextKind.MATHS
        if (fence := _FENCE.match(line)) is not None:
            self._fence = fence[1]
            return TextKind.CODE
        kind = self._kind_of(line)
        mark = line.strip()[:2]
        if mark in _OPENS and kind is not TextKind.MATHS:
            self._maths = _OPENS[mark]
            kind = TextKind.MATHS
        self._listed = kind is TextKind.LIST
        return kind

    def _tagged(self, tags: list[str]) -> TextKind:
        if tags[0] and not self._thinking and TextKind.THINKING not in self._kinds:
            self._thought = True
            self._starts[1:], self._kinds[:] = [], [TextKind.THINKING] * bool(self._starts)
        self._thinking = not tags[-1]
        return TextKind.THINKING

    def _kind_of(self, line: str) -> TextKind:
        if _ITEM.match(line) or (self._listed and line[:2].isspace() and line.strip()):
            return TextKind.LIST
        if _LINE_OF_MATHS.match(line):
            return TextKind.MATHS
        if self._listed and not line.strip():
            return TextKind.LIST
        return TextKind.PROSE


def _units(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
