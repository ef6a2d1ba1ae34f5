"""Tool calls among the deltas of a completion."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from dataclasses import replace

from engine.model.text.tool_calls import ToolCallParser
from engine.request import ToolCall, ToolChoice
from engine.server.reasoning import CallPart, CompletionDelta, Token

_HEAD = re.compile(
    r'\{"name": "(?P<name>[^"]+)", "(?:arguments|parameters)": (?=\{)'
    r"|\[TOOL_CALLS\](?P<mistral>[\w.:/-]+)\[ARGS\](?=\{)"
    r"|to=functions\.(?P<channel>[\w.:/-]+) <\|constrain\|>json<\|message\|>(?=\{)"
)
"""What a grammar of calls writes before the arguments of each (`calls_grammar`)."""


class CallReader:
    """Finds the calls in what is said, while it is being written; thoughts call nothing.

    Where the answer has to call, a grammar sees to it that what looks like a call is one: its
    arguments are told as they come. Elsewhere a call is told when it is whole: until then it may
    turn out to be text.

    Args:
        choice: the tools that may be called, and whether more than one call counts.
    """

    def __init__(self, choice: ToolChoice) -> None:
        self._parser = ToolCallParser(choice.tools)
        self._certain = _CertainCalls() if choice.required else None
        self._parallel = choice.parallel
        self._called = False
        self._tokens: list[Token] = []  # whose text was held back

    def feed(self, delta: CompletionDelta) -> Iterator[CompletionDelta]:
        """Yield what a delta completes."""
        if delta.reasoning:
            yield delta
            return
        self._tokens += delta.tokens
        if self._certain is not None:
            for part in self._certain.feed(delta.text):
                tokens, self._tokens = tuple(self._tokens), []
                yield replace(part, tokens=tokens)
            return
        for each in self._parser.feed(delta.text):
            yield from self._told(each)

    def finish(self) -> Iterator[CompletionDelta]:
        """Yield what was held back: no more comes."""
        if self._certain is not None:
            yield from self._certain.finish()
            return
        for each in self._parser.finish():
            yield from self._told(each)

    def _told(self, each: str | ToolCall) -> Iterator[CompletionDelta]:
        tokens, self._tokens = tuple(self._tokens), []
        if isinstance(each, str):
            yield CompletionDelta(each, False, tokens)
        elif self._parallel or not self._called:
            self._called = True
            yield CompletionDelta("", False, tokens, each, CallPart.BEGIN)
            yield CompletionDelta(each.arguments, False, (), each, CallPart.ARGUMENTS)
            yield CompletionDelta("", False, (), each, CallPart.WHOLE)


class _CertainCalls:
    """Reads calls that a grammar holds to their form."""

    def __init__(self) -> None:
        self._held = ""
        self._call: ToolCall | None = None
        self._depth = 0
        self._quoted = self._escaped = False

    def feed(self, text: str) -> Iterator[CompletionDelta]:
        """Yield the parts of calls that the next stretch brings."""
        self._held += text
        while self._held:
            if self._call is None:
                match = _HEAD.search(self._held)
                if match is None:
                    return
                name = match["name"] or match["mistral"] or match["channel"]
                self._call = ToolCall(f"call_{secrets.token_hex(8)}", name, "")
                self._held = self._held[match.end() :]
                yield CompletionDelta("", False, (), self._call, CallPart.BEGIN)
            end = self._end()
            piece, self._held = self._held[:end], self._held[end:]
            self._call = replace(self._call, arguments=self._call.arguments + piece)
            yield CompletionDelta(piece, False, (), self._call, CallPart.ARGUMENTS)
            if not self._depth:
                yield CompletionDelta("", False, (), self._call, CallPart.WHOLE)
                self._call = None

    def finish(self) -> Iterator[CompletionDelta]:
        """Yield that a call is over that was cut short."""
        if self._call is not None:
            yield CompletionDelta("", False, (), self._call, CallPart.WHOLE)
            self._call = None

    def _end(self) -> int:
        """Return how much of the held text belongs to the arguments."""
        for place, character in enumerate(self._held):
            if self._quoted:
                self._quoted = self._escaped or character != '"'
                self._escaped = not self._escaped and character == "\\"
            elif character == '"':
                self._quoted = True
            elif character in "{[":
                self._depth += 1
            elif character in "}]":
                self._depth -= 1
                if not self._depth:
                    return place + 1
        return len(self._held)
