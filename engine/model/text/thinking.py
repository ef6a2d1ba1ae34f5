"""Thoughts: the stretches of an answer in which a model thinks before it speaks.

They stand between `<think>` and `</think>` (or `<thinking>`). Some templates open the thought
themselves, so that the answer brings only its end. Tags in code or within a line are text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from engine.model.text.code_fence import FENCE, closes

_TAG = re.compile(r"<(/?)think(?:ing)?>")
_CLOSING = re.compile(r"<(/)think(?:ing)?>")
_TAGS = ("<think>", "<thinking>", "</think>", "</thinking>")
_LINE = 200
"""Characters of a line that tell whether it begins or ends code."""


class AnswerPart(Enum):
    """Kinds of pieces of an answer."""

    SAID = auto()
    THOUGHT = auto()
    OPENING = auto()
    CLOSING = auto()
    CLOSING_ALL = auto()
    """The end of a thought that was never opened: everything before it was thought."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of an answer, as it stands in the source."""

    part: AnswerPart
    text: str


def parts(text: str) -> tuple[str, str]:
    """Return the thoughts and the text of an answer; one that still thinks has no text yet."""
    pieces = pieces_of(text)
    thought = "".join(piece.text for piece in pieces if piece.part is AnswerPart.THOUGHT)
    said = "".join(piece.text for piece in pieces if piece.part is AnswerPart.SAID)
    return thought.strip(), said.strip()


def pieces_of(text: str) -> list[Piece]:
    """Return a whole answer in pieces."""
    for inside in (False, True):
        splitter = ThoughtSplitter(inside=inside)
        pieces = [*splitter.feed(text), *splitter.finish()]
        if not any(piece.part is AnswerPart.CLOSING_ALL for piece in pieces):
            break
    return pieces


class ThoughtSplitter:
    """Tells thought from speech while an answer is being written.

    What may become a tag is held back until it is decided.
    """

    def __init__(self, *, inside: bool = False) -> None:
        self._inside = inside
        self._opened = inside
        self._held = ""
        self._line = ""
        self._ticks = 0
        self._fence = ""

    def feed(self, text: str) -> Iterator[Piece]:
        """The pieces in the next stretch of text."""
        text = self._held + text
        self._held = ""
        at = 0
        while (found := self._next_tag(text, at)) is not None:
            yield from self._text(text[at : found.start()])
            yield self._tag(found)
            at = found.end()
        held = _possible_tag(text, at)
        self._held = text[len(text) - held :] if held else ""
        yield from self._text(text[at : len(text) - held])

    def finish(self) -> Iterator[Piece]:
        """Yield the pieces held back: no more text comes."""
        held, self._held = self._held, ""
        yield from self._text(held)

    def _next_tag(self, text: str, at: int) -> re.Match[str] | None:
        """The next tag that counts; what is before it, as far as it is speech, has been read."""
        if self._inside:
            return _CLOSING.search(text, at)
        for match in _TAG.finditer(text, at):
            self._read(text[at : match.start()])
            at = match.start()
            if not self._fence and self._counts(closing=bool(match[1])):
                return match
        self._read(text[at : len(text) - _possible_tag(text, at)])
        return None

    def _counts(self, *, closing: bool) -> bool:
        """Return whether a tag in speech, outside of code blocks, begins or ends a thought."""
        if closing:
            return not self._opened and self._ticks % 2 == 0
        return not self._line.strip()

    def _tag(self, match: re.Match[str]) -> Piece:
        closing = AnswerPart.CLOSING if self._inside else AnswerPart.CLOSING_ALL
        part = closing if match[1] else AnswerPart.OPENING
        self._inside, self._opened = part is AnswerPart.OPENING, True
        self._line, self._ticks = "", 0
        return Piece(part, match[0])

    def _text(self, text: str) -> Iterator[Piece]:
        if text:
            yield Piece(AnswerPart.THOUGHT if self._inside else AnswerPart.SAID, text)

    def _read(self, text: str) -> None:
        """Keep track of code: tags in it do not count."""
        *ended, rest = text.split("\n")
        for line in ended:
            line = self._line + line  # noqa: PLW2901 - its beginning came earlier
            self._line, self._ticks = "", 0
            match = FENCE.match(line)
            if self._fence:
                self._fence = "" if line.strip() and closes(line, self._fence) else self._fence
            elif match is not None:
                self._fence = match[2]
        self._line = (self._line + rest)[:_LINE]
        self._ticks += rest.count("`")


def _possible_tag(text: str, at: int) -> int:
    """Return how many characters at the end of `text` may be the beginning of a tag."""
    start = text.rfind("<", max(at, len(text) - len("</thinking>")))
    if start < 0 or not any(tag.startswith(text[start:]) for tag in _TAGS):
        return 0
    return len(text) - start
