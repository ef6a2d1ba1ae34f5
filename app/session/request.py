"""Requests to the engine, made of a conversation's messages and setup."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date

from app.history import AnswerState, ChatSetup, StoredMessage
from engine.request import NO_TOOLS, ChatRequest, Message, Role, SamplingParams, ToolChoice

_UNFINISHED = {
    AnswerState.STOPPED,
    AnswerState.INTERRUPTED,
    AnswerState.FAILED,
    AnswerState.REPEATED,
}


def chat_request(
    request_id: str,
    messages: Sequence[StoredMessage],
    setup: ChatSetup,
    sampling: SamplingParams,
    clicked_at: float | None = None,
    tools: ToolChoice = NO_TOOLS,
) -> ChatRequest:
    """The request for the answer to `messages`, or for the rest of the answer that ends them."""
    began = next((message.created_at for message in messages if message.created_at), None)
    return ChatRequest(
        request_id,
        request_messages(seen(messages, setup), setup, tools),
        sampling,
        max_tokens=setup.max_tokens,
        clicked_at=clicked_at,
        thinking=setup.thinking,
        thought_tokens=setup.thought_tokens,
        tools=tools,
        began=None if began is None else date.fromtimestamp(began),  # noqa: DTZ012 - the user's day
    )


def counted_request(
    messages: Sequence[StoredMessage], setup: ChatSetup, tools: ToolChoice = NO_TOOLS
) -> ChatRequest:
    """Return the request for a count of its tokens."""
    return chat_request("", messages, setup, setup.sampling(0), tools=tools)


def seen(messages: Sequence[StoredMessage], setup: ChatSetup) -> Sequence[StoredMessage]:
    """The messages without those that were left out to make room."""
    if setup.seen_after is None:
        return messages
    for index, message in enumerate(messages):
        if message.id == setup.seen_after:
            return messages[index + 1 :]
    return messages


def request_messages(
    messages: Sequence[StoredMessage], setup: ChatSetup, tools: ToolChoice = NO_TOOLS
) -> tuple[Message, ...]:
    """The messages as the engine wants them; answers of which nothing was written are left out.

    Long files are named only where a tool can read them.
    """
    system = setup.system_prompt.strip()
    prompt = (Message(Role.SYSTEM, system),) if system else ()
    name_files = _file_namer(tools) if tools.tools else None
    turns = tuple(
        _turn(message, name_files) for message in messages if message.text or message.calls
    )
    return prompt + turns


def _file_namer(tools: ToolChoice) -> Callable[[str], str] | None:
    """Return what names long files in a message; None where no tool could read them."""
    from app.session.file_parts import READ_FILE, files_named  # most chats have no tools

    return files_named if any(tool.name == READ_FILE for tool in tools.tools) else None


def _turn(message: StoredMessage, name_files: Callable[[str], str] | None) -> Message:
    """Return a message as the model reads it."""
    if message.calls:
        from app.session.calls import turn_of

        return turn_of(message)
    text = message.text
    if name_files is not None and message.role is Role.USER:
        text = name_files(text)
    return Message(message.role, text, message.token_ids)


def unfinished(message: StoredMessage) -> bool:
    """Return whether this is an answer that can go on."""
    return message.role is Role.ASSISTANT and message.state in _UNFINISHED
