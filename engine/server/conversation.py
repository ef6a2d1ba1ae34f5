"""Conversations in requests: who said what, as text, and which tools were called."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

from engine.request import Message, Role, ToolCall
from engine.server.api_error import bad_request
from engine.server.members import Members, well_formed

_ROLES = {
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "tool": Role.TOOL,
    "function": Role.TOOL,
}
_THOUGHTS = frozenset({"thinking", "redacted_thinking"})
"""Parts of answers that clients of Anthropic's send back; the template would drop them."""
_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
_MOST_MESSAGES = 10_000


def messages(turns: Sequence[Members]) -> tuple[Message, ...]:
    """Return the messages of a conversation.

    Tool calls and their results are taken as they stand in OpenAI's chat and responses and in
    Anthropic's messages. Calls that follow an answer belong to it.

    Raises:
        ApiError: it is empty, or says something else than text.
    """
    if not turns or len(turns) > _MOST_MESSAGES:
        raise bad_request(f"A conversation has from 1 to {_MOST_MESSAGES} messages.", "messages")
    found: list[Message] = []
    for turn in turns:
        kind = turn.raw("type")
        if kind == "function_call":
            if not found or found[-1].role is not Role.ASSISTANT:
                found.append(Message(Role.ASSISTANT, ""))
            calls = (*found[-1].calls, _call(turn, turn, "call_id"))
            found[-1] = replace(found[-1], calls=calls)
        elif kind == "function_call_output":
            text = content(turn, "output", empty=True)
            found.append(Message(Role.TOOL, text, call_id=turn.text("call_id") or ""))
        else:
            found += _messages(turn)
    return tuple(found)


def _messages(turn: Members) -> Iterator[Message]:
    """Yield the results of tools in a message, and the message itself.

    Reasoning that a client sends back stands before what was said, where the model's template
    finds it, and keeps or drops it.
    """
    name = turn.needed_text("role")
    if name not in _ROLES:
        raise turn.unsupported("role")
    role = _ROLES[name]
    if role is Role.TOOL:
        call_id = turn.text("tool_call_id") or ""
        yield Message(role, content(turn, "content", empty=True), call_id=call_id)
        return
    results = list(_results(turn)) if role is Role.USER else []
    yield from results
    answer = role is Role.ASSISTANT
    calls = tuple(_calls(turn)) if answer else ()
    text = content(turn, "content", empty=answer or bool(results))
    if results and not text:
        return
    thought = turn.text("reasoning_content") if answer else None
    text = f"<think>\n{thought}\n</think>\n\n{text}" if thought else text
    yield Message(role, text, calls=calls)


def _calls(turn: Members) -> Iterator[ToolCall]:
    """Yield the calls that an answer asked for."""
    for call in turn.list("tool_calls"):
        call.only("type", "function")
        function = call.inner("function")
        if function is None:
            raise call.wrong("function", "an object")
        yield _call(function, call, "id")
    if (function := turn.inner("function_call")) is not None:
        yield _call(function, function, "id")
    for part in _parts(turn, "content"):
        if part.raw("type") == "tool_use":
            text = json.dumps(part.raw("input") or {}, ensure_ascii=False)
            yield ToolCall(part.text("id") or "", part.needed_text("name"), text)


def _call(function: Members, holder: Members, name: str) -> ToolCall:
    said = function.raw("arguments")
    if isinstance(said, dict):  # as Ollama's clients send them
        text = json.dumps(said, ensure_ascii=False)
    else:
        text = function.text("arguments") or "{}"
    return ToolCall(holder.text(name) or "", function.needed_text("name"), text)


def _results(turn: Members) -> Iterator[Message]:
    """Yield the results of tools among the parts of a message, as Anthropic's clients send them."""
    for part in _parts(turn, "content"):
        if part.raw("type") == "tool_result":
            text = content(part, "content", empty=True)
            yield Message(Role.TOOL, text, call_id=part.text("tool_use_id") or "")


def _parts(turn: Members, name: str) -> Iterator[Members]:
    return turn.list(name) if isinstance(turn.raw(name), list) else iter(())


def content(turn: Members, name: str, *, empty: bool = False) -> str:
    """Return a text, or the joined texts of a list of parts, without thoughts, calls and results.

    Args:
        turn: what holds it.
        name: of the member.
        empty: whether it may be left out.

    Raises:
        ApiError: a part is no text.
    """
    value = turn.raw(name)
    if value is None and empty:
        return ""
    if not isinstance(value, list):
        return well_formed(value, turn.place(name))
    return "".join(filter(None, map(_part_text, turn.list(name))))


def _part_text(part: Members) -> str | None:
    kind = part.text("type")
    if kind in _THOUGHTS or kind in ("tool_use", "tool_result"):
        return None
    if kind == "refusal":
        return part.needed_text("refusal")
    if kind not in _TEXT_PARTS:
        raise part.unsupported("type")
    return part.needed_text("text")
