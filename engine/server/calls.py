"""Calls of tools among the deltas of a completion."""

from __future__ import annotations

from collections.abc import Iterator

from engine.model.text.tool_calls import ToolCallParser
from engine.request import ToolCall, ToolChoice
from engine.server.reasoning import CompletionDelta, Token


class CallReader:
    """Finds the calls in what is said, while it is being written; thoughts call nothing.

    Args:
        choice: the tools that may be called, and whether more than one call counts.
    """

    def __init__(self, choice: ToolChoice) -> None:
        self._parser = ToolCallParser(choice.tools)
        self._parallel = choice.parallel
        self._called = False
        self._tokens: list[Token] = []  # whose text was held back

    def feed(self, delta: CompletionDelta) -> Iterator[CompletionDelta]:
        """Yield what a delta completes."""
        if delta.reasoning:
            yield delta
            return
        self._tokens += delta.tokens
        for each in self._parser.feed(delta.text):
            yield from self._told(each)

    def finish(self) -> Iterator[CompletionDelta]:
        """Yield what was held back: no more comes."""
        for each in self._parser.finish():
            yield from self._told(each)

    def _told(self, each: str | ToolCall) -> Iterator[CompletionDelta]:
        tokens, self._tokens = tuple(self._tokens), []
        if isinstance(each, str):
            yield CompletionDelta(each, False, tokens)
        elif self._parallel or not self._called:
            self._called = True
            yield CompletionDelta("", False, tokens, each)
