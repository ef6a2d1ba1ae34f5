"""Several completions of a request, lists of prompts, echoes, biases, suffixes."""

from __future__ import annotations

from typing import Any

import pytest
from dialect_bodies import (
    BODIES,
    CHAT,
    HELLO,
    TEXT,
    answered,
    at_home,
    streamed,
    told,
)
from household import Household
from played_engine import PlayedEngine, ask

from engine.commands import Generate
from engine.events import Failed
from engine.request import PromptDetail, RawPrompt


def seeds(engine: PlayedEngine) -> list[int]:
    asked = [each for each in engine.commands if isinstance(each, Generate)]
    return [each.request.sampling.seed for each in asked]


def test_several_completions_have_seeds_that_follow_each_other() -> None:
    engine = PlayedEngine()
    whole = answered(CHAT, engine, n=3, seed=2**64 - 1)
    assert [choice["index"] for choice in whole["choices"]] == [0, 1, 2]
    assert {choice["message"]["content"] for choice in whole["choices"]} == {"Good day!"}
    assert seeds(engine) == [2**64 - 1, 0, 1]
    usage = whole["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (5, 9, 14)
    ids = {each.request.id for each in engine.commands if isinstance(each, Generate)}
    assert len(ids) == 3


def test_several_completions_are_streamed_one_after_the_other() -> None:
    wishes = {"n": 2, "stream_options": {"include_usage": True}}
    *chunks, counts, done = streamed(CHAT, HELLO | wishes)
    assert done == "[DONE]"
    assert counts["usage"]["completion_tokens"] == 6
    told = [choice for chunk in chunks for choice in chunk["choices"]]
    for index in (0, 1):
        own = [choice for choice in told if choice["index"] == index]
        assert "".join(each["delta"].get("content", "") for each in own) == "Good day!"
        assert own[-1]["finish_reason"] == "stop"


def test_lists_of_prompts() -> None:
    engine = PlayedEngine()
    whole = told(TEXT, {"prompt": ["One", [5, 6]], "n": 2}, engine)
    assert [choice["index"] for choice in whole["choices"]] == [0, 1, 2, 3]
    asked = [each.request.raw for each in engine.commands if isinstance(each, Generate)]
    one, ids = RawPrompt("One", control_tokens=True), RawPrompt(ids=(5, 6))
    assert asked == [one, one, ids, ids]
    assert whole["usage"]["prompt_tokens"] == 10


def test_a_completion_that_fails_ends_the_stream() -> None:
    engine = PlayedEngine(failure=Failed(0.0, "", "It did not fit.", "Ask less."))
    assert ask(engine.application(), CHAT, HELLO | {"n": 2}).status == 400


def test_an_echo_of_the_text_alone_reads_the_prompt_as_usual() -> None:
    engine = PlayedEngine()
    whole = told(TEXT, {"prompt": "Dear me,", "echo": True}, engine)
    assert whole["choices"][0]["text"] == "Dear me,Good day!"
    assert engine.asked.request.detail is PromptDetail.NONE
    chunks = streamed(TEXT, {"prompt": "Dear me,", "echo": True})[:-1]
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == "Dear me,Good day!"


@pytest.mark.parametrize("most", [0, 3])
def test_an_echo_with_probabilities(most: int) -> None:
    body = {"prompt": "Dear me now", "echo": True, "logprobs": 1, "max_tokens": most}
    choice = told(TEXT, body)["choices"][0]
    logprobs, said = choice["logprobs"], ["Good", " day", "!"] if most else []
    assert choice["text"] == "Dear me now" + "".join(said)
    assert logprobs["tokens"] == ["Dear", " me", " now", *said]
    assert logprobs["token_logprobs"][0] is None
    assert logprobs["token_logprobs"][1:3] == pytest.approx([-1.386294] * 2)
    assert logprobs["text_offset"][:3] == [0, 4, 7]
    parts = [chunk["choices"][0]["logprobs"] for chunk in streamed(TEXT, body)[:-1]]
    assert [token for part in parts if part for token in part["tokens"]] == logprobs["tokens"]


def test_an_echo_of_ids_leaves_out_what_the_model_begins_with() -> None:
    engine = PlayedEngine()
    choice = told(TEXT, {"prompt": [7, 8], "echo": True, "logprobs": 0}, engine)["choices"][0]
    assert choice["logprobs"]["tokens"][:2] == ["<7>", "<8>"]


@pytest.mark.parametrize(
    ("value", "bias"),
    [
        ({"5": -100, "7": 1.5}, ((5, -100.0), (7, 1.5))),
        ([[5, 2], [6, False]], ((5, 2.0), (6, -1e6))),
        ({}, ()),
        (None, ()),
    ],
)
@pytest.mark.parametrize("path", BODIES)
def test_a_bias_is_read(path: str, value: Any, bias: Any) -> None:
    engine = PlayedEngine()
    answered(path, engine, logit_bias=value)
    assert engine.asked.request.bias == bias


@pytest.mark.parametrize(
    "value",
    [{"a": 1}, {"5": "1"}, {"5": True}, [[5]], [["word", 1]], {"-1": 1}, {"5": 1e9}, "5", 7,
     {str(token): 1 for token in range(2000)}, {str(2**31): 1}],
    ids=lambda value: str(value)[:20],
)  # fmt: skip
def test_no_bias(value: Any) -> None:
    reply = ask(PlayedEngine().application(), CHAT, HELLO | {"logit_bias": value})
    assert (reply.status, reply.json["error"]["param"]) == (400, "logit_bias")


def test_what_follows_is_told_to_the_model() -> None:
    engine = PlayedEngine()
    told(TEXT, {"prompt": "def f(", "suffix": "    return 1"}, engine)
    assert engine.asked.request.raw == RawPrompt("def f(", None, True, "    return 1")


def test_an_echo_tells_the_probabilities_that_the_answer_had(household: Household) -> None:
    prompt = "The sea is deep and"
    body = {"prompt": prompt, "max_tokens": 6, "temperature": 0, "logprobs": 2}
    answer = at_home(household, TEXT, body)["choices"][0]
    whole = {**body, "prompt": prompt + answer["text"], "max_tokens": 0, "echo": True}
    echo = at_home(household, TEXT, whole)["choices"][0]
    assert echo["text"] == prompt + answer["text"]
    said = answer["logprobs"]
    count = len(said["tokens"])
    assert echo["logprobs"]["tokens"][-count:] == said["tokens"]
    assert echo["logprobs"]["token_logprobs"][-count:] == pytest.approx(
        said["token_logprobs"], rel=1e-5
    )
    assert echo["logprobs"]["top_logprobs"][-1] == pytest.approx(said["top_logprobs"][-1], rel=1e-5)
