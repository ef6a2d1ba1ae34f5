"""Conversations in the forms that templates take: other orders, other roles, other speakers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

from engine.request import Message, Role, ToolCall


def one_system_text(turns: Sequence[Message]) -> list[Message]:
    """Fold the system messages that a conversation begins with into one."""
    leading = 0
    while leading < len(turns) and turns[leading].role is Role.SYSTEM:
        leading += 1
    if leading < 2:
        return list(turns)
    text = "\n\n".join(turn.text for turn in turns[:leading])
    return [Message(Role.SYSTEM, text), *turns[leading:]]


def system_as_user(turns: Sequence[Message]) -> list[Message]:
    """Put a leading system text before the first question."""
    if not turns or turns[0].role is not Role.SYSTEM:
        return list(turns)
    system, *rest = turns
    for index, turn in enumerate(rest):
        if turn.role is Role.USER:
            rest[index] = replace(turn, text=f"{system.text}\n\n{turn.text}".rstrip())
            return rest
    return [replace(system, role=Role.USER), *rest]


def merged(turns: Sequence[Message]) -> list[Message]:
    """One message per change of speaker; a system text later on is said by the user."""
    found: list[Message] = []
    for index, original in enumerate(turns):
        late_system = index > 0 and original.role is Role.SYSTEM
        turn = replace(original, role=Role.USER) if late_system else original
        if found and found[-1].role is turn.role:
            text = f"{found[-1].text}\n\n{turn.text}"
            found[-1] = Message(turn.role, text, calls=found[-1].calls + turn.calls)
        else:
            found.append(turn)
    return found


def user_first(turns: Sequence[Message]) -> list[Message]:
    """Put an empty question before an answer that a conversation begins with, a greeting."""
    start = 1 if turns and turns[0].role is Role.SYSTEM else 0
    if len(turns) == start or turns[start].role is not Role.ASSISTANT:
        return list(turns)
    return [*turns[:start], Message(Role.USER, ""), *turns[start:]]


def tools_as_text(turns: Sequence[Message]) -> list[Message]:
    """Write tool calls into the answers, and have their results said by the user."""
    return list(_tools_as_text(turns))


def _tools_as_text(turns: Sequence[Message]) -> Iterator[Message]:
    for turn in turns:
        if turn.role is Role.TOOL:
            text = f"<tool_response>\n{turn.text}\n</tool_response>"
            yield Message(Role.USER, text)
        elif turn.calls:
            calls = "\n".join(map(_written, turn.calls))
            yield Message(turn.role, f"{turn.text}\n{calls}".lstrip())
        else:
            yield turn


def _written(call: ToolCall) -> str:
    said = {"name": call.name, "arguments": arguments(call)}
    return f"<tool_call>\n{json.dumps(said, ensure_ascii=False)}\n</tool_call>"


def arguments(call: ToolCall) -> object:
    """Return a call's arguments as templates want them: an object, or the text if it is none."""
    try:
        value = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return call.arguments
    return value if isinstance(value, dict) else call.arguments
