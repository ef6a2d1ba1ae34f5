"""The shortest body of a request in each dialect, by the path that takes it."""

from __future__ import annotations

import asyncio
from typing import Any

from household import Household
from played_engine import PlayedEngine, ask, exchange

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello"}]}
BODIES: dict[str, dict[str, Any]] = {
    CHAT: HELLO,
    TEXT: {"prompt": "Hello"},
    RESPONSES: {"input": "Hello"},
    MESSAGES: {**HELLO, "max_tokens": 9},
}


def answered(path: str, engine: PlayedEngine | None = None, **members: Any) -> Any:
    """What a client gets for such a body with more members, as JSON."""
    reply = ask((engine or PlayedEngine()).application(), path, BODIES[path] | members)
    assert reply.status == 200, reply.body
    return reply.json


def told(path: str, body: Any, engine: PlayedEngine | None = None) -> Any:
    """What a client gets for a body, as JSON."""
    reply = ask((engine or PlayedEngine()).application(), path, body)
    assert reply.status == 200, reply.body
    return reply.json


def streamed(path: str, body: Any, engine: PlayedEngine | None = None) -> list[Any]:
    """The events of a stream."""
    reply = ask((engine or PlayedEngine()).application(), path, {"stream": True} | body)
    assert reply.status == 200
    return reply.events


def at_home(household: Household, path: str, body: Any) -> Any:
    """What a real model answers, as JSON."""
    reply = asyncio.run(exchange(household.application(), path, body))
    assert reply.status == 200, reply.body
    return reply.json
