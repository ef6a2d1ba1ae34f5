"""A window and a server at one engine: the same text, the window first, nothing mixed up."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from engine_session import generate
from folder_models import FOLDER_TARGET
from household import Household
from played_engine import exchange

from engine.commands import Command, Load, Stop
from engine.events import Finished, FinishReason, PlanReady
from engine.request import SamplingParams

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
QUESTION = "Tell me about the sea."
HELLO = {"messages": [{"role": "user", "content": QUESTION}]}
SAMPLINGS = {
    "greedy": SamplingParams(),
    "sampled": SamplingParams(temperature=0.9, top_k=50, top_p=0.95, seed=11),
    "penalised": SamplingParams(
        temperature=0.8, min_p=0.02, seed=2**63 + 5, repetition_penalty=1.2, frequency_penalty=0.3
    ),
}


def members(sampling: SamplingParams) -> dict[str, Any]:
    names = SamplingParams.__dataclass_fields__
    return {name: getattr(sampling, name) for name in names}


def in_the_window(household: Household, **wishes: Any) -> Finished:
    household.submit(generate(QUESTION, id="window", **wishes))
    finished = household.wait(Finished, lambda event: event.request_id == "window")
    assert isinstance(finished, Finished)
    return finished


def ask(household: Household, path: str, body: Any) -> Any:
    reply = asyncio.run(exchange(household.application(), path, body))
    assert reply.status == 200, reply.body
    return reply


def spoken(chunks: list[Any]) -> str:
    choices = [choice for chunk in chunks if chunk != "[DONE]" for choice in chunk["choices"]]
    return "".join(choice["delta"].get("content", "") for choice in choices)


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS.keys())
def test_the_same_seed_gives_the_text_of_the_window(
    household: Household, sampling: SamplingParams
) -> None:
    expected = in_the_window(household, sampling=sampling, max_tokens=40)
    body = HELLO | members(sampling) | {"max_tokens": 40}
    whole = ask(household, CHAT, body).json
    assert whole["choices"][0]["message"]["content"] == expected.text
    assert whole["system_fingerprint"] == expected.signature
    chunks = ask(household, CHAT, body | {"stream": True}).events[:-1]
    assert spoken(chunks) == expected.text


def test_the_window_hears_nothing_of_the_servers_answers(household: Household) -> None:
    ask(household, CHAT, HELLO | {"max_tokens": 3})
    assert [event for event in household.window if hasattr(event, "request_id")] == []


def test_the_windows_user_goes_first_and_the_answer_goes_on(household: Household) -> None:
    """An answer that makes room, several times, is the one that was never interrupted."""
    sampling = SamplingParams(temperature=0.9, seed=3)
    usage = {"stream_options": {"include_usage": True}}
    body = HELLO | members(sampling) | {"max_tokens": 60, "stream": True} | usage
    undisturbed = ask(household, CHAT, body).events
    household.forget()
    for number in range(3):
        command = generate("Hi", id=f"window {number}", max_tokens=2)
        household.at_text.append(partial(household.submit, command))
    reply = ask(household, CHAT, body)
    ended = [event for event in household.all if isinstance(event, Finished)]
    assert [event.request_id for event in ended if event.reason is FinishReason.LENGTH] == [
        "window 0", "window 1", "window 2",
    ]  # fmt: skip
    assert sum(event.reason is FinishReason.YIELDED for event in ended) == 3
    assert spoken(reply.events) == spoken(undisturbed)
    *_, ended, counted, _ = reply.events
    assert ended["choices"] == undisturbed[-3]["choices"]
    assert counted["usage"]["completion_tokens"] == undisturbed[-2]["usage"]["completion_tokens"]
    assert counted["usage"]["prompt_tokens"] == undisturbed[-2]["usage"]["prompt_tokens"]


def test_a_stream_tells_its_counts_all_along_where_it_is_wished(household: Household) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    body = HELLO | {"max_tokens": 60, "temperature": 0, "stream": True}
    *chunks, last, done = ask(household, CHAT, body | {"stream_options": options}).events
    assert done == "[DONE]"
    told = [chunk["usage"] for chunk in chunks if not chunk["choices"]]
    counts = [usage["completion_tokens"] for usage in told]
    assert counts
    assert counts == sorted(counts)
    assert counts[-1] <= last["usage"]["completion_tokens"]
    assert {usage["prompt_tokens"] for usage in told} == {last["usage"]["prompt_tokens"]}
    plain = ask(household, CHAT, body | {"stream_options": {"include_usage": True}}).events
    assert all(chunk["choices"] for chunk in plain[:-2])
    assert spoken(chunks) == spoken(plain)


def test_a_raw_answer_that_makes_room_goes_on_too(household: Household) -> None:
    body = {"prompt": "Once upon a time", "max_tokens": 60, "temperature": 0, "stream": True}
    undisturbed = ask(household, TEXT, body).events
    household.forget()
    command = generate("Hi", id="window", max_tokens=2)
    household.at_text.append(partial(household.submit, command))
    reply = ask(household, TEXT, body)

    def text(events: list[Any]) -> str:
        return "".join(event["choices"][0]["text"] for event in events[:-1])

    assert text(reply.events) == text(undisturbed)


def answered_while(household: Household, command: Command, max_tokens: int) -> Any:
    """Return the reply to a client during whose answer the window sent a command."""
    household.at_text.append(partial(household.submit, command))
    body = HELLO | {"max_tokens": max_tokens, "temperature": 0}
    return asyncio.run(exchange(household.application(), CHAT, body))


def test_a_stop_in_the_window_does_not_end_the_answer_of_a_client(household: Household) -> None:
    reply = answered_while(household, Stop(), 60)
    assert reply.status == 200
    whole = ask(household, CHAT, HELLO | {"max_tokens": 60, "temperature": 0}).json
    assert reply.json["choices"] == whole["choices"]


def test_an_answer_that_another_model_ends_is_not_gone_on_with(household: Household) -> None:
    reply = answered_while(household, Load(FOLDER_TARGET), 900)
    assert (reply.status, reply.json["error"]["code"]) == (503, "stopped")
    household.wait(PlanReady)


def test_a_text_goes_on_as_it_stands(household: Household) -> None:
    """Tokens of the prompt and of the answer together are those of the text itself."""
    first = ask(household, TEXT, {"prompt": "Once upon", "max_tokens": 8, "temperature": 0}).json
    text = first["choices"][0]["text"]
    assert text.startswith(" ")
    longer = ask(household, TEXT, {"prompt": "Once upon", "max_tokens": 16, "temperature": 0}).json
    assert longer["choices"][0]["text"].startswith(text)


def test_token_ids_that_the_model_does_not_know_are_refused(household: Household) -> None:
    app = household.application()
    reply = asyncio.run(exchange(app, TEXT, {"prompt": [5, 10**6]}))
    assert (reply.status, reply.json["error"]["type"]) == (400, "invalid_request_error")


def test_control_tokens_in_a_prompt_count_unless_they_are_to_be_text(household: Household) -> None:
    def prompt_tokens(**more: Any) -> int:
        body = {"prompt": "Hello<|end|>", "max_tokens": 1, **more}
        count = ask(household, TEXT, body).json["usage"]["prompt_tokens"]
        assert isinstance(count, int)
        return count

    assert prompt_tokens() < prompt_tokens(parse_special=False)


def test_control_tokens_in_a_conversation_are_text(household: Household) -> None:
    def prompt_tokens(text: str) -> int:
        turns = [{"role": "user", "content": text}]
        count = ask(household, CHAT, {"messages": turns, "max_tokens": 1}).json["usage"]
        return int(count["prompt_tokens"])

    assert prompt_tokens("Hello<|end|>") > prompt_tokens("Hello") + 1


def test_an_empty_question_is_one_where_the_template_takes_it(household: Household) -> None:
    reply = ask(household, CHAT, {"messages": [{"role": "user", "content": ""}], "max_tokens": 1})
    assert reply.json["usage"]["completion_tokens"] == 1


def test_a_conversation_longer_than_the_context_is_refused(household: Household) -> None:
    turns = [{"role": "user", "content": "sea " * 20_000}]
    reply = asyncio.run(exchange(household.application(), CHAT, {"messages": turns}))
    assert (reply.status, reply.json["error"]["code"]) == (400, "context_length_exceeded")


def test_alternatives_are_the_likeliest_tokens(household: Household) -> None:
    body = HELLO | {"max_tokens": 12, "temperature": 0, "logprobs": True}
    plain = ask(household, CHAT, body).json["choices"][0]
    told = ask(household, CHAT, body | {"top_logprobs": 4}).json["choices"][0]
    assert told["message"] == plain["message"]
    for entry, alone in zip(told["logprobs"]["content"], plain["logprobs"]["content"], strict=True):
        others = entry["top_logprobs"]
        assert len(others) == 4
        assert [each["logprob"] for each in others] == sorted(
            (each["logprob"] for each in others), reverse=True
        )
        assert others[0]["token"] == entry["token"] == alone["token"]  # greedy
        assert others[0]["logprob"] == entry["logprob"]
        assert entry["logprob"] == pytest.approx(alone["logprob"], abs=1e-3)


def test_alternatives_of_a_text(household: Household) -> None:
    body = {"prompt": "Once upon", "max_tokens": 4, "temperature": 0, "logprobs": 2}
    told = ask(household, TEXT, body).json["choices"][0]["logprobs"]
    for token, own, others in zip(
        told["tokens"], told["token_logprobs"], told["top_logprobs"], strict=True
    ):
        assert others[token] == own == max(others.values())


@pytest.mark.release(reason="every size of the crowd", keep=1)
@pytest.mark.parametrize("requests", [24, 200])
def test_a_crowd_gets_its_own_answers_while_the_window_streams(
    household: Household, requests: int
) -> None:
    """Eight at once; each answer is the one that its seed gives alone."""
    app = household.application(max_waiting=8)

    def body(seed: int) -> Any:
        return HELLO | {"seed": seed, "temperature": 1.0, "max_tokens": 6}

    alone = {
        seed: ask(household, CHAT, body(seed)).json["choices"][0]["message"]["content"]
        for seed in range(4)
    }
    assert len(set(alone.values())) > 1
    household.submit(generate(QUESTION, id="window", max_tokens=100))

    async def crowd() -> list[tuple[int, Any]]:
        room = asyncio.Semaphore(8)

        async def one(number: int) -> tuple[int, Any]:
            async with room:
                return number % 4, await exchange(app, CHAT, body(number % 4))

        return await asyncio.gather(*map(one, range(requests)))

    for seed, reply in asyncio.run(crowd()):
        assert reply.json["choices"][0]["message"]["content"] == alone[seed]
    finished = household.wait(Finished, lambda event: event.request_id == "window")
    assert finished.reason in (FinishReason.LENGTH, FinishReason.STOP)
