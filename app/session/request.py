"""Requests to the engine, made of a conversation's messages and setup."""

from __future__ import annotations

from collections.abc import Sequence
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

    Long files are named only where a tool can read them, or has done so.
    """
    system = setup.system_prompt.strip()
    prompt = (Message(Role.SYSTEM, system),) if system else ()
    if setup.tools or any(message.calls for message in messages):
        from app.session.calls import turns_with_calls  # most chats have none

        return prompt + turns_with_calls(messages, setup, tools)
    turns = tuple(
        Message(message.role, message.text, message.token_ids)
        for message in messages
        if message.text
    )
    return prompt + turns


def unfinished(message: StoredMessage) -> bool:
    """Return whether this is an answer that can go on."""
    return message.role is Role.ASSISTANT and message.state in _UNFINISHED
