"""Reasoning and content of a completion, each without the tags and blanks between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from itertools import groupby
from operator import attrgetter

from engine.events import TokenSpan
from engine.model.text.thinking import AnswerPart, ThoughtSplitter
from engine.request import ChatRequest, Role, ToolCall

Token = tuple[str, TokenSpan]
"""What a token wrote, and its span."""


class CallPart(Enum):
    """Parts of a call, in the order in which they are told."""

    BEGIN = auto()
    """Its id and name."""
    ARGUMENTS = auto()
    """A stretch of its arguments."""
    WHOLE = auto()
    """That it is over, with all of it."""


@dataclass(frozen=True, slots=True)
class CompletionDelta:
    """A stretch of a completion.

    Attributes:
        text: of it.
        reasoning: whether it is thought, not said.
        tokens: those that wrote it.
        call: a tool call in place of what is said; as much of it as `part` says.
        part: which part of the call it is; the text is then a stretch of its arguments.
    """

    text: str
    reasoning: bool
    tokens: tuple[Token, ...] = ()
    call: ToolCall | None = None
    part: CallPart = CallPart.WHOLE


class ReasoningParser:
    """Splits an answer while it is being written.

    Blanks at both ends of a thought, and those between it and what is said, are left out.

    Args:
        request: what the answer belongs to. One that it continues may have begun inside a thought;
            the answer to a raw prompt is all said.
    """

    def __init__(self, request: ChatRequest) -> None:
        self._splits = request.raw is None
        begun = request.messages[-1] if request.messages else None
        inside = False
        if begun is not None and begun.role is Role.ASSISTANT:
            for piece in ThoughtSplitter().feed(begun.text):
                inside = (inside or piece.part is AnswerPart.OPENING) and (
                    piece.part is not AnswerPart.CLOSING
                )
        self._splitter = ThoughtSplitter(inside=inside)
        self._tokens: list[Token] = []  # that wrote nothing yet that was told
        self._blanks = ""  # of a thought, which may be its last
        self._begins = False  # whether a tag was the last thing that was told

    def feed(self, tokens: Iterable[Token]) -> Iterator[CompletionDelta]:
        """Yield the deltas that the next tokens complete, those of a kind as one."""
        for reasoning, together in groupby(self._feed(tokens), attrgetter("reasoning")):
            deltas = list(together)
            text = "".join(delta.text for delta in deltas)
            yield CompletionDelta(text, reasoning, tuple(t for each in deltas for t in each.tokens))

    def _feed(self, tokens: Iterable[Token]) -> Iterator[CompletionDelta]:
        for token in tokens:
            self._tokens.append(token)
            if not self._splits:
                yield from self._told(token[0], reasoning=False)
                continue
            for piece in self._splitter.feed(token[0]):
                match piece.part:
                    case AnswerPart.OPENING | AnswerPart.CLOSING:
                        self._tokens, self._blanks, self._begins = [token], "", True
                    case AnswerPart.THOUGHT:
                        yield from self._thought(piece.text)
                    case _:
                        yield from self._told(piece.text, reasoning=False)
            if self._begins:
                self._tokens = []

    def finish(self) -> Iterator[CompletionDelta]:
        """Yield what was held back: no more tokens come."""
        for piece in self._splitter.finish():
            yield from self._told(piece.text, reasoning=piece.part is AnswerPart.THOUGHT)

    def _thought(self, text: str) -> Iterator[CompletionDelta]:
        text = self._blanks + text
        told = text.rstrip()
        self._blanks = text[len(told) :] if told or not self._begins else ""
        yield from self._told(told, reasoning=True)

    def _told(self, text: str, *, reasoning: bool) -> Iterator[CompletionDelta]:
        text = text.lstrip() if self._begins else text
        if not text:
            return
        tokens, self._tokens, self._begins = tuple(self._tokens), [], False
        yield CompletionDelta(text, reasoning, tokens)
