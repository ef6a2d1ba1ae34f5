"""Tokens counted, cut and spelled for clients."""

from __future__ import annotations

from typing import Any

import pytest
from dialect_bodies import (
    BODIES,
    HELLO,
    MESSAGES,
    RESPONSES,
    at_home,
    told,
)
from household import Household
from played_engine import PlayedEngine, ask


@pytest.mark.parametrize(
    ("path", "body", "answer"),
    [
        ("/v1/messages/count_tokens", HELLO, {"input_tokens": 5}),
        ("/v1/responses/input_tokens", BODIES[RESPONSES],
         {"object": "response.input_tokens", "input_tokens": 5}),
        ("/tokenize", {"content": "Hi"}, {"tokens": [72, 105], "count": 2, "max_model_len": 512}),
        ("/tokenize", HELLO, {"tokens": [*b"Hello"], "count": 5, "max_model_len": 512}),
        ("/detokenize", {"tokens": [72, 105]}, {"content": "Hi", "prompt": "Hi"}),
    ],
)  # fmt: skip
def test_questions_about_tokens(path: str, body: Any, answer: Any) -> None:
    assert told(path, body) == answer


def test_what_cannot_be_counted_says_why() -> None:
    body = {"messages": [{"role": "user", "content": "refuse"}]}
    reply = ask(PlayedEngine().application(), "/v1/messages/count_tokens", body)
    assert (reply.status, reply.json["type"]) == (400, "error")
    assert "takes no such thing" in reply.json["error"]["message"]
    assert ask(PlayedEngine().application(), "/detokenize", {"tokens": "Hi"}).status == 400


def test_tokens_there_and_back(household: Household) -> None:
    told = at_home(household, "/tokenize", {"content": "The sea is deep."})
    back = at_home(household, "/detokenize", {"tokens": told["tokens"]})
    assert back["content"] == "The sea is deep."
    counted = at_home(household, "/v1/messages/count_tokens", HELLO)["input_tokens"]
    usage = at_home(household, MESSAGES, {**HELLO, "max_tokens": 1})["usage"]
    assert counted == usage["input_tokens"] + usage["cache_read_input_tokens"]
