"""Thoughts: the stretches of an answer in which a model thinks before it speaks.

They stand between `<think>` and `</think>` (`<thinking>`, Magistral's `[THINK]`). Some templates
open the thought themselves, so that the answer brings only its end. Tags that an answer only
mentions are text: in code, an opening one within a line together with the closing one after it, and
a closing one that nothing opened unless it ends its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from enum import Enum, auto

from engine.model.text.code_fence import FENCE, closes

_TAG = re.compile(r"</?think(?:ing)?>|\[/?THINK\]")
_TAGS = ("<think>", "<thinking>", "</think>", "</thinking>", "[THINK]", "[/THINK]")
_BLANKS = re.compile(r"[ \t\r]*")
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

    What may become a tag is held back until it is decided, and so is a closing tag that nothing
    opened until it is known whether its line goes on.
    """

    def __init__(self, *, inside: bool = False) -> None:
        self._inside = inside
        self._opened = inside
        self._last_tag = "<think>"
        self._mentioned = 0  # opening tags within lines of speech whose closing ones are to come
        self._held = ""
        self._line = ""
        self._ticks = 0
        self._fence = ""

    @property
    def inside(self) -> bool:
        """Tell whether what comes next is thought, as far as it is decided."""
        return self._inside

    @property
    def closing_tag(self) -> str:
        """The tag that ends the thought that is going on."""
        return f"{self._last_tag[0]}/{self._last_tag[1:]}"

    def said_from(self, text: str) -> int:
        """Return where in the next stretch of text the thought that is going on ends.

        It is 0 if none is going on, and the length of the text if it does not end there.
        """
        if not self._inside:
            return 0
        ahead = copy(self)
        at = -len(self._held)
        for piece in ahead.feed(text):
            at += len(piece.text)
            if piece.part is AnswerPart.CLOSING:
                return at
        return len(text)

    def feed(self, text: str) -> Iterator[Piece]:
        """The pieces in the next stretch of text."""
        return self._split(self._held + text, more=True)

    def finish(self) -> Iterator[Piece]:
        """Yield the pieces held back: no more text comes."""
        return self._split(self._held, more=False)

    def _split(self, text: str, *, more: bool) -> Iterator[Piece]:
        at, self._held = 0, ""
        while at < len(text):
            tag, end = self._next_tag(text, at, more=more)
            yield from self._text(text[at:end])
            if tag is None:
                self._held = text[end:]
                return
            yield self._tag(tag)
            at = tag.end()

    def _next_tag(self, text: str, at: int, *, more: bool) -> tuple[re.Match[str] | None, int]:
        """The next tag that counts, or None, and where the text before it ends.

        That text has been read, as far as it is speech.
        """
        undecided = len(text) - (_possible_tag(text, at) if more else 0)
        if self._inside:
            return self._next_end(text, at, undecided)
        for match in _TAG.finditer(text, at):
            self._read(text[at : match.start()])
            at = match.start()
            if self._fence or self._ticks % 2:
                continue
            if _closes(match):
                line_end = _BLANKS.match(text, match.end())
                rest = line_end.end() if line_end else match.end()
                if self._mentioned:
                    self._mentioned -= 1
                elif self._opened:
                    continue
                elif rest == len(text) and more:
                    return None, at
                elif rest == len(text) or text[rest] == "\n":
                    return match, at
            elif not self._line.strip():
                return match, at
            else:
                self._mentioned += 1
        self._read(text[at:undecided])
        return None, undecided

    def _next_end(self, text: str, at: int, undecided: int) -> tuple[re.Match[str] | None, int]:
        """The tag that ends the thought, as `_next_tag` gives it; pairs in one line do not."""
        for match in _TAG.finditer(text, at):
            mentioned = 0 if "\n" in text[at : match.start()] else self._mentioned
            at = match.start()
            if _closes(match) and not mentioned:
                return match, at
            self._mentioned = mentioned + (-1 if _closes(match) else 1)
        if "\n" in text[at:undecided]:
            self._mentioned = 0
        return None, undecided

    def _tag(self, match: re.Match[str]) -> Piece:
        closing = AnswerPart.CLOSING if self._inside else AnswerPart.CLOSING_ALL
        part = closing if _closes(match) else AnswerPart.OPENING
        self._inside, self._opened = part is AnswerPart.OPENING, True
        self._last_tag = match[0]
        self._line, self._ticks, self._mentioned = "", 0, 0
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


def _closes(tag: re.Match[str]) -> bool:
    return tag[0][1] == "/"


def _possible_tag(text: str, at: int) -> int:
    """Return how many characters at the end of `text` may be the beginning of a tag."""
    least = max(at, len(text) - len("</thinking>"))
    start = max(text.rfind("<", least), text.rfind("[", least))
    if start < 0 or not any(tag.startswith(text[start:]) for tag in _TAGS):
        return 0
    return len(text) - start
