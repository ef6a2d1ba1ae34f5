"""Root causes of advisories against other servers of models, each tried here."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from math import isfinite
from typing import Any

import pytest
from dialect_bodies import BODIES, CHAT, HELLO, MESSAGES, TEXT
from engine_session import generate
from folder_models import FOLDER_TARGET
from household import Household
from played_engine import PlayedEngine, Reply, ask, exchange

from engine.commands import Load, Unload
from engine.events import Finished, PlanReady, Unloaded
from engine.server.completion_request import MOST_ALTERNATIVES

NUMBERS = (
    *("temperature", "top_p", "top_k", "min_p", "seed", "presence_penalty", "frequency_penalty"),
    *("repetition_penalty", "repeat_penalty", "n", "top_logprobs", "logprobs", "best_of"),
    *("max_tokens", "max_completion_tokens", "max_output_tokens", "min_tokens", "typical_p"),
)
HOSTILE = (
    *("-1", "-0.0", "0", "-1e308", "1e308", "1e999", "-1e999", "NaN", "Infinity", "-Infinity"),
    *(
        str(sign * 2**bits + more)
        for bits in (31, 32, 63, 64)
        for sign in (1, -1)
        for more in (0, -1)
    ),
    *("1" + "0" * 4000, "0.1e-400", "1" * 30 + ".5", "true", '"1e999"', "[1]"),
)


def sent(household: Household, path: str, body: object = None, **more: Any) -> Reply:
    """The reply of the server to one request."""
    return asyncio.run(exchange(household.application(), path, body, **more))


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("name", NUMBERS)
def test_negative_not_a_number_and_huge(path: str, name: str) -> None:
    """Each number is taken within its range or refused in words; none reaches the engine wrong."""
    for value in HOSTILE:
        engine = PlayedEngine()
        told = json.dumps({**BODIES[path], name: "HERE"}).replace('"HERE"', value)
        reply = ask(engine.application(), path, told.encode())
        assert reply.status in (200, 400), (value, reply)
        if reply.status == 400:
            assert engine.commands == []
            assert reply.json["error"]["message"]
            continue
        request = engine.asked.request
        sampling = request.sampling
        for number in (sampling.temperature, sampling.presence_penalty, sampling.top_p):
            assert isfinite(number)
        assert 0 <= sampling.seed < 2**64
        assert 0 <= sampling.top_k < 2**31
        assert request.max_tokens is None or 0 < request.max_tokens < 2**31
        assert 0 <= request.alternatives <= MOST_ALTERNATIVES


@pytest.mark.parametrize(
    "prompt", [[-1], [2**31], [2**32], [2**63], [2**64 - 1], [-(2**63)], [0.5], [True], [[1], [-2]]]
)
def test_token_ids_that_no_vocabulary_has(household: Household, prompt: Any) -> None:
    reply = sent(household, TEXT, {"prompt": prompt, "max_tokens": 1})
    assert reply.status == 400, reply
    assert reply.json["error"]["message"]
    assert sent(household, "/health").status == 200


def test_a_schema_or_grammar_without_a_bottom_ends_nothing(household: Household) -> None:
    """Nested so deeply that whoever follows it calls itself too often."""
    deep = "[" * 100_000 + "]" * 100_000
    schema = '{"type":"object","properties":{"a":' * 5000 + "{}" + "}}" * 5000
    recursive = json.dumps({"$ref": "#"})
    told = [
        json.dumps({**HELLO, "max_tokens": 1, "grammar": "root ::= root root"}),
        json.dumps({**HELLO, "max_tokens": 1, "grammar": "root ::= " + "(" * 50_000}),
        *(
            json.dumps({**HELLO, "max_tokens": 1})[:-1]
            + ', "response_format": {"type": "json_schema", "json_schema": '
            + f'{{"name": "x", "schema": {nested}}}}}}}'
            for nested in (schema, recursive)
        ),
        json.dumps({**HELLO, "max_tokens": 1})[:-1] + f', "tools": {deep}}}',
    ]
    for body in told:
        reply = sent(household, CHAT, body.encode())
        assert reply.status == 400, (body[:80], reply)
    assert sent(household, "/health").status == 200


@pytest.mark.parametrize("path", [CHAT, TEXT, MESSAGES])
def test_unload_while_a_request_runs(household: Household, path: str) -> None:
    """The client is told that it ended, nothing of freed memory; the next request is refused."""
    about = {"messages": [{"role": "user", "content": "Tell me about the sea."}]}
    long = {"prompt": "Once upon a time"} if path == TEXT else about
    body = {**long, "max_tokens": 400, "temperature": 0, "stream": True}
    app = household.application()
    household.at_text.append(partial(household.submit, Unload()))
    try:
        reply = asyncio.run(exchange(app, path, body))
        household.wait(Unloaded)
        assert reply.status == 200  # its head was sent long before
        assert any("error" in json.dumps(event) for event in reply.events), reply.body[-600:]
        assert sent(household, path, {**body, "stream": False}).status == 503
    finally:
        household.forget()
        household.submit(Load(FOLDER_TARGET))
        household.wait(PlanReady)
    assert sent(household, path, {**BODIES[path], "max_tokens": 2}).status == 200


def test_a_model_replaced_while_requests_wait(household: Household) -> None:
    """Those that wait are written by the new model, or refused in words; none hangs."""
    app = household.application()

    async def run() -> list[Reply]:
        body = {**HELLO, "max_tokens": 40}
        return await asyncio.gather(*(exchange(app, CHAT, body) for _ in range(4)))

    household.at_text.append(partial(household.submit, Load(FOLDER_TARGET)))
    for reply in asyncio.run(run()):
        assert reply.status in (200, 503), reply


def test_one_clients_cached_prompt_is_not_seen_by_another(household: Household) -> None:
    """Neither in the count of cached tokens nor by what the prefix cache has to offer."""
    secret = "My pass phrase is a brown horse that jumps over nine lazy ants."
    body = {"messages": [{"role": "user", "content": secret}], "max_tokens": 4, "temperature": 0}

    def cached(address: str) -> tuple[int, str]:
        reply = sent(household, CHAT, body, address=address).json
        usage = reply["usage"]["prompt_tokens_details"]
        return usage["cached_tokens"], reply["choices"][0]["message"]["content"]

    first, text = cached("192.0.2.1")
    again, same = cached("192.0.2.1")
    other, equal = cached("192.0.2.2")
    assert first == other == 0
    assert again > 10
    assert text == same == equal


def test_a_client_finds_nothing_of_the_windows_chats(household: Household) -> None:
    household.submit(generate("Where the treasure lies.", id="mine", max_tokens=2))
    household.wait(Finished, lambda event: event.request_id == "mine")
    body = {"messages": [{"role": "user", "content": "Where the treasure lies."}], "max_tokens": 2}
    reply = sent(household, CHAT, body, address="192.0.2.9").json
    assert reply["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
