"""Ten thousand broken requests: none ends the server, none brings a traceback to light."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from household import Household
from played_engine import Reply, exchange

from engine.commands import Command, Generate

REQUESTS, SEEDS = 100, 100
TOKEN = "a-token-of-the-tests"
SCHEMA = {
    "type": "object",
    "properties": {"at": {"type": "string", "maxLength": 5}, "n": {"enum": [1, 2, None]}},
    "required": ["at"],
    "additionalProperties": False,
}
LOOK = {
    "type": "function",
    "function": {"name": "look", "description": "Look", "parameters": SCHEMA, "strict": True},
}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {
        "model": "", "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
            {"role": "assistant", "content": "Hi", "reasoning_content": "Hm."},
            {"role": "user", "content": "Again"},
        ], "stream": True, "stop": ["END"], "seed": 1, "tool_choice": "none", "mirostat": 0,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "temperature": 0.5, "top_p": 0.9, "top_k": 9, "min_p": 0.1, "presence_penalty": 0.1,
        "frequency_penalty": 0.1, "max_tokens": 2, "logprobs": True, "top_logprobs": 2,
        "chat_template_kwargs": {"enable_thinking": False}, "n": 1, "tools": [],
        "response_format": {"type": "text"},
    },
    "/v1/completions": {
        "prompt": "Once", "max_tokens": 2, "logprobs": 2, "stream": False, "parse_special": True,
        "stop": "END", "echo": False, "seed": 1,
    },
    "/v1/responses": {
        "input": [{"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "Hello"},
        ]}], "instructions": "Be brief.", "max_output_tokens": 2, "stream": True,
        "reasoning": {"effort": "none"}, "text": {"format": {"type": "text"}}, "tools": [],
    },
    "/v1/messages": {
        "system": [{"type": "text", "text": "Be brief."}], "max_tokens": 2, "stream": True,
        "messages": [{"role": "user", "content": "Hello"}], "stop_sequences": ["END"],
        "thinking": {"type": "disabled"}, "top_k": 9,
    },
    "/v1/embeddings": {"input": ["Once", "upon a time"], "encoding_format": "base64"},
    "/v1/messages/count_tokens": {"messages": [{"role": "user", "content": "Hi"}], "tools": [LOOK]},
    "/tokenize": {"content": "Once", "add_special": True, "parse_special": False},
    "/detokenize": {"tokens": [5, 6, 7]},
    "/api/chat": {
        "model": "", "messages": [
            {"role": "user", "content": "Hi", "images": []},
            {"role": "assistant", "content": "", "tool_calls": [
                {"function": {"name": "look", "arguments": {"at": "it"}}},
            ]},
            {"role": "tool", "tool_name": "look", "content": "It is."},
        ], "tools": [LOOK], "format": SCHEMA, "think": False, "keep_alive": "5m",
        "options": {"num_predict": 2, "temperature": 0.5, "stop": ["END"], "seed": 3, "num_ctx": 9},
    },
    "/api/generate": {"prompt": "Once", "system": "Be brief.", "raw": False, "stream": False,
                      "suffix": "", "format": "json", "options": {"num_predict": 2}},
    "/api/embed": {"input": "Once"},
    "/api/show": {"model": "", "verbose": True},
    "/infill": {"input_prefix": "def f(", "input_suffix": "return", "n_predict": 2, "stream": True,
                "input_extra": [{"filename": "a.py", "text": "A = 1"}]},
    "/completion": {"prompt": "Once", "n_predict": 2, "logit_bias": [[5, 1.5], [6, False]],
                    "json_schema": SCHEMA},
}  # fmt: skip
CALLED = {
    "messages": [
        {"role": "user", "content": "Look"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}},
        ]},
        {"role": "tool", "tool_call_id": "1", "content": "It is."},
        {"role": "user", "content": "Again"},
    ],
    "tools": [LOOK], "tool_choice": "required", "parallel_tool_calls": False, "max_tokens": 2,
}  # fmt: skip
FORMED = {
    "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 2, "n": 2,
    "response_format": {
        "type": "json_schema", "json_schema": {"name": "it", "strict": True, "schema": SCHEMA},
    },
    "logit_bias": {"5": 2, "6": -100},
}  # fmt: skip
ECHOED = {"prompt": ["Once", [5, 6]], "echo": True, "logprobs": 1, "max_tokens": 0, "n": 2}
VARIANTS = {"/v1/chat/completions": [CALLED, FORMED], "/v1/completions": [ECHOED]}
"""Other bodies that a path takes."""
TEXTS = [
    "", " ", "\x00", "\n" * 50, "<|end|>", "<think>", "</think>", "<|im_start|>", "{{ 7 }}",
    "{% for x in y %}", "\ud800", "\U0001f600" * 20, "e\u0301" * 9, "\u202e", "../../etc/passwd",
    "a" * 3000, "'; --", "data: [DONE]\n\n", "\r\nX: y", "None", "\ufeff", "\ufffe",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2, 2**31, 2**63, 2**64, -(2**63), 1e308, -1e-308, 0.5, 1e999, [],
    {}, [[]], [None], [{}], {"a": 1}, {"type": "text"}, {"role": "user"}, [1, 2, 3], ["a"] * 30,
    [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}], [-1], [10**9], [[5, 6]],
    [{"role": "user", "content": None}], [{"role": "tool", "content": "x"}],
]  # fmt: skip
HEADERS: list[dict[str, str | None]] = [
    {"host": "evil.example"}, {"host": ""}, {"host": "[::1"}, {"host": "127.0.0.1:99999999"},
    {"origin": "null"}, {"origin": "\xff"}, {"content-type": "text/plain"}, {"content-type": None},
    {"content-type": "application/json; charset=\xff"}, {"authorization": None},
    {"authorization": "Bearer \x00"}, {"authorization": "Bearer"}, {"x-api-key": "\xff" * 99},
    {"content-length": "abc"}, {"content-length": "-5"}, {"content-length": "9" * 30},
    {"content-length": None}, {"user-agent": "\xff\x1b[2J" * 50},
]  # fmt: skip
PATHS = [
    "/",
    "/v1/models/",
    "/v1/models/..%2f..",
    "/v1/../etc/passwd",
    "/metrics",
    "/v1",
    "//",
    "*",
]
METHODS = ["GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "\x00"]
EXPECTED = {200, 204, 400, 401, 403, 404, 405, 413, 415, 429, 503}


def anything(random: Random) -> Any:
    return random.choice(TEXTS) if random.random() < 0.4 else deepcopy(random.choice(VALUES))


def members_of(value: Any) -> list[tuple[Any, Any]]:
    """Every object or list below a value, with a key in it."""
    keys = (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    )
    found = [(value, key) for key in keys]
    for key in keys:
        found += members_of(value[key])
    return found


def change_value(random: Random, body: Any) -> None:
    holder, key = random.choice(members_of(body))
    holder[key] = anything(random)


def drop_value(random: Random, body: Any) -> None:
    holder, key = random.choice(members_of(body))
    del holder[key]


def add_value(random: Random, body: Any) -> None:
    bodies = (*BODIES.values(), *(each for known in VARIANTS.values() for each in known))
    names = [name for known in bodies for name in known]
    body[random.choice(names)] = anything(random)


def repeat_value(random: Random, body: Any) -> None:
    lists = [holder[key] for holder, key in members_of(body) if isinstance(holder[key], list)]
    if lists:
        found = random.choice(lists)
        found.extend(list(found) * random.randint(1, 5))


def nest_value(random: Random, body: Any) -> None:
    holder, key = random.choice(members_of(body))
    for _ in range(random.choice([1, 5, 100])):
        holder[key] = [holder[key]]


CHANGES: list[Callable[[Random, Any], None]] = [
    change_value, change_value, change_value, drop_value, add_value, repeat_value, nest_value,
]  # fmt: skip


def broken(random: Random, raw: bytes) -> bytes:
    """Some bytes of a body lost, added or turned over."""
    data = bytearray(raw)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(data) + 1)
        match random.randrange(4):
            case 0:
                del data[at:]
            case 1:
                data[at:at] = random.randbytes(random.randint(1, 9))
            case 2 if at < len(data):
                data[at] ^= 1 << random.randrange(8)
            case _:
                data[at:at] = random.choice(
                    [b"[", b'{"a":' * 5000, b"\xff", b'"', b"1e999", b"NaN", b"\x00"]
                )
    return bytes(data)


def request(random: Random) -> tuple[str, bytes | None, dict[str, Any]]:
    """One request, with what is wrong in it: path, body, and what else `exchange` takes."""
    path = random.choice(list(BODIES))
    body = json.loads(json.dumps(random.choice([BODIES[path], *VARIANTS.get(path, [])])))
    for _ in range(random.choice([0, 1, 1, 2, 4])):
        if members_of(body):
            random.choice(CHANGES)(random, body)
    raw: bytes | None = json.dumps(body).encode()
    assert raw is not None
    more: dict[str, Any] = {"pieces": random.choice([1, 1, 3])}
    if random.random() < 0.2:
        raw = broken(random, raw)
    if random.random() < 0.1:
        more["headers"] = random.choice(HEADERS)
    if random.random() < 0.05:
        path = random.choice(PATHS)
    if random.random() < 0.05:
        more["method"] = random.choice(METHODS)
    return path, raw, more


def check(reply: Reply) -> None:
    """A known status; what a client can read; nothing of the program's inside."""
    assert reply.status in EXPECTED, reply
    assert b"Traceback" not in reply.body
    assert b".py" not in reply.body
    if reply.status == 204:
        return
    kind = reply.headers["content-type"]
    if kind.startswith("text/event-stream"):
        events = reply.events
        assert events
        assert events[-1] == "[DONE]" or {"type", "stop", "error"} & set(events[-1])
    elif kind == "application/x-ndjson":
        assert reply.events[-1].get("done") or reply.events[-1]["error"]
    elif kind.startswith("application/json"):
        answer = reply.json
        assert reply.status == 200 or answer.get("error") or answer["status"]
        assert reply.status != 200 or answer


@pytest.mark.release(reason="ten thousand requests", keep=2)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_broken_requests(household: Household, seed: int) -> None:
    random = Random(seed)
    app = household.application(token=TOKEN, max_body_bytes=2**20)

    def short(command: Command) -> None:
        """Whatever a request asks for, a word will do."""
        if isinstance(command, Generate):
            known = command.request.max_tokens
            most = 2 if known is None else min(known, 2)
            command = replace(command, request=replace(command.request, max_tokens=most))
        household.submit(command)

    async def run() -> list[int]:
        statuses = []
        for _ in range(REQUESTS):
            path, body, more = request(random)
            reply = await exchange(app, path, body, **more)
            check(reply)
            statuses.append(reply.status)
        healthy = await exchange(app, "/health")
        assert healthy.json == {"status": "ok"}
        return statuses

    household.dispatcher.open(short)
    try:
        statuses = asyncio.run(run())
    finally:
        household.dispatcher.open(household.submit)
    assert {200, 400} <= set(statuses)
