"""Tool calls of models on servers: as text of their answers, and as their conversations have them.

An answer's calls come apart from its text. They are put behind it as models here write them
themselves, so that whoever reads calls here has one form to read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from engine.model.text.thinking import parts
from engine.model.text.tool_calls import OPENINGS, ToolCallParser
from engine.remote.stream import CallPiece
from engine.request import Message, Role, Tool, ToolCall

Json = dict[str, object]

MOST_CALLS = 128
"""Calls of one answer; more are left out."""


@dataclass(slots=True)
class _Call:
    index: int | None
    id: str
    name: str
    arguments: list[str] = field(default_factory=list)


class CallCollector:
    """Joins the pieces of the calls of an answer."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []

    def take(self, pieces: Sequence[CallPiece]) -> None:
        """Take pieces in the order in which they come."""
        for piece in pieces:
            call = self._meant(piece)
            if call is not None:
                call.name = call.name or piece.name
                call.arguments.append(piece.arguments)

    def _meant(self, piece: CallPiece) -> _Call | None:
        """Return the call of a piece: the one of its number, unless an id says it is another."""
        same = [each for each in self._calls if each.index == piece.index]
        found = same[-1] if same else None
        begins = piece.id != "" and found is not None and piece.id != found.id
        if piece.index is None and piece.name:
            begins = True
        if found is None or begins:
            if len(self._calls) == MOST_CALLS:
                return None
            found = _Call(piece.index, piece.id, "")
            self._calls.append(found)
        return found

    def text(self) -> str:
        """Return all of them as a model writes them; what is no call is text all the same."""
        return "".join(map(_written, self._calls))


def _written(call: _Call) -> str:
    told = "".join(call.arguments) or "{}"
    try:
        arguments = json.loads(told)
    except (ValueError, RecursionError):
        arguments = told
    said = {"name": call.name, "arguments": arguments}
    return f"\n<tool_call>\n{json.dumps(said, ensure_ascii=False)}\n</tool_call>"


def turns(messages: Sequence[Message], tools: Sequence[Tool]) -> Iterator[Json]:
    """Yield a conversation as servers take it, its calls numbered and each result with its call's.

    Thoughts of earlier answers stay here, as chat templates leave them out.

    Args:
        messages: the conversation. An answer of a model here holds its calls in its text.
        tools: that may be called.
    """
    count, waiting = 0, list[str]()
    for message in messages:
        if message.role is Role.TOOL:
            call_id = waiting.pop(0) if waiting else message.call_id
            yield {"role": "tool", "tool_call_id": call_id, "content": message.text}
            continue
        answers = message.role is Role.ASSISTANT
        text = parts(message.text)[1] if answers else message.text
        told: Json = {"role": str(message.role), "content": text}
        calls = message.calls
        if answers and not calls and any(opening in text for opening in OPENINGS):
            told["content"], calls = _split(text, tools)
        if calls:
            waiting = [f"call_{count + number}" for number in range(1, len(calls) + 1)]
            count += len(calls)
            told["tool_calls"] = [_told(*each) for each in zip(waiting, calls, strict=True)]
        yield told


def _split(text: str, tools: Sequence[Tool]) -> tuple[str, tuple[ToolCall, ...]]:
    parser = ToolCallParser(tools)
    read = [*parser.feed(text), *parser.finish()]
    said = "".join(each for each in read if isinstance(each, str)).rstrip()
    return said, tuple(each for each in read if isinstance(each, ToolCall))


def _told(call_id: str, call: ToolCall) -> Json:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call_id, "type": "function", "function": function}


def offered(tools: Sequence[Tool]) -> list[Json]:
    """Return tools as servers are told of them."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": json.loads(tool.parameters),
            },
        }
        for tool in tools
    ]
