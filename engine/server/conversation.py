"""Conversations in requests: who said what, as text."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from engine.request import Message, Role
from engine.server.api_error import bad_request
from engine.server.members import Members, well_formed

_ROLES = {
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
}
_THOUGHTS = frozenset({"thinking", "redacted_thinking"})
"""Parts of answers that clients of Anthropic's send back; the template would drop them."""
_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
_MOST_MESSAGES = 10_000


def check_tool_choice(body: Members) -> None:
    """Refuse a request whose answer must call a tool.

    Tools that the model may call are no reason to refuse: Open WebUI offers some in every request.
    Here it calls none of them and answers in words.

    Raises:
        ApiError: it must call one.
    """
    for name in ("tool_choice", "function_call"):
        choice = body.raw(name)
        kind = choice.get("type", "function") if isinstance(choice, dict) else choice
        if kind not in (None, "auto", "none"):
            raise body.unsupported(name)


def messages(turns: Sequence[Members]) -> tuple[Message, ...]:
    """Return the messages of a conversation.

    Raises:
        ApiError: it is empty, or says something else than text.
    """
    if not turns or len(turns) > _MOST_MESSAGES:
        raise bad_request(f"A conversation has from 1 to {_MOST_MESSAGES} messages.", "messages")
    return tuple(map(message, turns))


def message(turn: Members) -> Message:
    """Return one message.

    Reasoning that a client sends back stands before what was said, where the model's template
    finds it, and keeps or drops it.

    Raises:
        ApiError: it has a role that is not supported, or says something else than text.
    """
    name = turn.needed_text("role")
    if name not in _ROLES:
        raise turn.unsupported("role")
    turn.only("tool_calls", [])
    turn.only("function_call")
    role = _ROLES[name]
    answer = role is Role.ASSISTANT
    text = content(turn, "content", empty=answer, skipped=_THOUGHTS if answer else ())
    thought = turn.text("reasoning_content") if answer else None
    return Message(role, f"<think>\n{thought}\n</think>\n\n{text}" if thought else text)


def content(turn: Members, name: str, *, empty: bool = False, skipped: Collection[str] = ()) -> str:
    """Return a text, or the joined texts of a list of parts.

    Args:
        turn: what holds it.
        name: of the member.
        empty: whether it may be left out.
        skipped: types of parts that are passed over.

    Raises:
        ApiError: a part is no text.
    """
    value = turn.raw(name)
    if value is None and empty:
        return ""
    if not isinstance(value, list):
        return well_formed(value, turn.place(name))
    texts = []
    for part in turn.list(name):
        kind = part.text("type")
        if kind in skipped:
            continue
        if kind not in _TEXT_PARTS:
            raise part.unsupported("type")
        texts.append(part.needed_text("text"))
    return "".join(texts)
