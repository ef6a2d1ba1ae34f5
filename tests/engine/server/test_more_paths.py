"""Several completions, echoes, embeddings, tokens, and the dialects of Ollama and llama-server."""

from __future__ import annotations

import asyncio
import base64
import struct
from typing import Any

import pytest
from dialect_bodies import BODIES, CHAT, HELLO, MESSAGES, RESPONSES, TEXT, answered
from household import Household
from played_engine import NAME, PlayedEngine, ask, exchange

from engine.commands import Generate
from engine.events import Failed, FinishReason
from engine.request import PromptDetail, RawPrompt, Role

EMBEDDINGS = "/v1/embeddings"


def told(path: str, body: Any, engine: PlayedEngine | None = None) -> Any:
    reply = ask((engine or PlayedEngine()).application(), path, body)
    assert reply.status == 200, reply.body
    return reply.json


def streamed(path: str, body: Any, engine: PlayedEngine | None = None) -> list[Any]:
    reply = ask((engine or PlayedEngine()).application(), path, {"stream": True} | body)
    assert reply.status == 200
    return reply.events


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


@pytest.mark.parametrize("value", ["Rain", ["Rain"], [5, 6], [[5, 6]]])
def test_embeddings_have_length_one(value: Any) -> None:
    engine = PlayedEngine()
    whole = told(EMBEDDINGS, {"input": value}, engine)
    (entry,) = whole["data"]
    assert entry["embedding"] == pytest.approx([0.6, -0.8])
    assert (entry["index"], whole["usage"]) == (0, {"prompt_tokens": 5, "total_tokens": 5})
    assert (engine.asked.request.max_tokens, engine.asked.gives_way) == (0, True)


def test_embeddings_as_base64() -> None:
    whole = told(EMBEDDINGS, {"input": ["a", "b"], "encoding_format": "base64"})
    packed = [base64.b64decode(each["embedding"]) for each in whole["data"]]
    assert [struct.unpack("<2f", each) for each in packed] == [pytest.approx((0.6, -0.8))] * 2


@pytest.mark.parametrize(
    "body",
    [{}, {"input": []}, {"input": [1, "a"]}, {"input": "a", "dimensions": 5}, {"input": {}},
     {"input": "a", "encoding_format": "int8"}, {"input": ["a"] * 3000}],
    ids=lambda body: str(body)[:40],
)  # fmt: skip
def test_no_embeddings(body: Any) -> None:
    assert ask(PlayedEngine().application(), EMBEDDINGS, body).status == 400


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


OLLAMA_CHAT = {"model": f"{NAME}:latest", **HELLO}
OLLAMA_TEXT = {"model": NAME, "prompt": "Hello"}


@pytest.mark.parametrize(
    ("path", "body", "text"),
    [
        ("/api/chat", OLLAMA_CHAT, lambda part: part["message"]["content"]),
        ("/api/generate", OLLAMA_TEXT, lambda part: part["response"]),
    ],
)
def test_ollamas_dialect(path: str, body: Any, text: Any) -> None:
    *parts, last = streamed(path, {**body, "stream": None})
    assert "".join(map(text, parts)) == "Good day!"
    assert [part["done"] for part in (*parts, last)] == [*[False] * len(parts), True]
    assert (last["done_reason"], last["eval_count"], last["prompt_eval_count"]) == ("stop", 3, 5)
    assert last["eval_duration"] == 250_000_000
    whole = told(path, {**body, "stream": False})
    assert (text(whole), whole["done"], whole["model"]) == ("Good day!", True, NAME)


def test_ollamas_options_are_read() -> None:
    engine = PlayedEngine()
    options = {"num_predict": 7, "temperature": 0, "seed": 4, "stop": ["END"], "num_ctx": 99}
    wishes = {"stream": False, "options": options, "format": "json"}
    told("/api/chat", OLLAMA_CHAT | wishes, engine)
    asked = engine.asked.request
    assert (asked.max_tokens, asked.sampling.temperature, asked.sampling.seed) == (7, 0, 4)
    assert asked.stop == ("END",)
    assert asked.grammar is not None
    told("/api/generate", {**OLLAMA_TEXT, "stream": False, "options": {"num_predict": -1}}, engine)
    assert engine.asked.request.max_tokens is None
    told("/api/generate", {**OLLAMA_TEXT, "stream": False, "system": "Be brief."}, engine)
    assert [each.role for each in engine.asked.request.messages] == [Role.SYSTEM, Role.USER]
    told("/api/generate", {**OLLAMA_TEXT, "stream": False, "suffix": "end"}, engine)
    assert engine.asked.request.raw == RawPrompt("Hello", suffix="end")


def test_ollamas_calls_and_thoughts() -> None:
    call = '<tool_call>\n{"name": "look", "arguments": {"at": "it"}}\n</tool_call>'
    engine = PlayedEngine(tokens=("<think>\n", "Hm", "\n</think>\n\n", call))
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
    message = told("/api/chat", {**OLLAMA_CHAT, "tools": tools, "stream": False}, engine)["message"]
    assert message["thinking"] == "Hm"
    assert message["tool_calls"] == [{"function": {"name": "look", "arguments": {"at": "it"}}}]
    turns = [
        *HELLO["messages"],
        {"role": "assistant", "content": "", "tool_calls": message["tool_calls"]},
        {"role": "tool", "tool_name": "look", "content": "It is."},
    ]
    told("/api/chat", {**OLLAMA_CHAT, "messages": turns, "stream": False}, engine)
    assert engine.asked.request.messages[1].calls[0].arguments == '{"at": "it"}'


def test_ollamas_clients_have_models_loaded() -> None:
    for body in ({"model": NAME, "messages": []}, {"model": NAME, "prompt": ""}):
        path = "/api/chat" if "messages" in body else "/api/generate"
        engine = PlayedEngine()
        assert told(path, {**body, "stream": False}, engine)["done_reason"] == "load"
        assert streamed(path, body, engine)[-1]["done_reason"] == "load"
        assert not any(isinstance(each, Generate) for each in engine.commands)


def test_ollamas_pages() -> None:
    app = PlayedEngine().application("Other")
    names = [each["name"] for each in ask(app, "/api/tags").json["models"]]
    assert names == [NAME, "Other"]
    assert [each["model"] for each in ask(app, "/api/ps").json["models"]] == [NAME]
    assert ask(app, "/api/version").json["version"]
    shown = ask(app, "/api/show", {"model": NAME}).json
    assert shown["capabilities"] == ["completion", "tools", "embedding"]
    assert ask(app, "/api/show", {"model": "absent"}).status == 404
    embedded = ask(app, "/api/embed", {"model": NAME, "input": ["a", "b"]}).json["embeddings"]
    assert embedded == [pytest.approx([0.6, -0.8])] * 2
    assert ask(app, "/api/embeddings", {"prompt": "a"}).json["embedding"]


def test_ollamas_errors() -> None:
    app = PlayedEngine(failure=Failed(0.0, "", "It did not fit.", "Ask less.")).application()
    reply = ask(app, "/api/chat", OLLAMA_CHAT)
    assert (reply.status, reply.json) == (400, {"error": "It did not fit. Ask less."})
    reply = ask(app, "/api/chat", {**OLLAMA_CHAT, "model": "absent"})
    assert reply.status == 404
    assert isinstance(reply.json["error"], str)


def test_models_have_the_names_that_anthropics_clients_read() -> None:
    (card,) = ask(PlayedEngine().application(), "/v1/models").json["data"]
    assert (card["display_name"], card["type"]) == (NAME, "model")
    assert card["created_at"].endswith("+00:00")


def test_infill() -> None:
    engine = PlayedEngine()
    extra = [{"filename": "a.py", "text": "A = 1"}]
    body = {"input_prefix": "def f(", "input_suffix": "return", "input_extra": extra}
    whole = told("/infill", {**body, "prompt": "x", "n_predict": 9}, engine)
    assert (whole["content"], whole["stop"], whole["stop_type"]) == ("Good day!", True, "eos")
    assert engine.asked.request.raw == RawPrompt("a.py\nA = 1\n\ndef f(x", suffix="return")
    parts = streamed("/infill", body)
    assert "".join(part["content"] for part in parts) == "Good day!"
    assert told("/completion", {"prompt": "Hello"}, engine)["content"] == "Good day!"
    cut = PlayedEngine(reason=FinishReason.LENGTH)
    assert told("/completion", {"prompt": "Hello"}, cut)["stop_type"] == "limit"


def test_references_to_what_nobody_stored_are_passed_over() -> None:
    engine = PlayedEngine()
    turns = [{"type": "item_reference", "id": "msg_1"}, {"role": "user", "content": "Hello"}]
    told(RESPONSES, {"input": turns}, engine)
    assert [each.text for each in engine.asked.request.messages] == ["Hello"]


def at_home(household: Household, path: str, body: Any) -> Any:
    reply = asyncio.run(exchange(household.application(), path, body))
    assert reply.status == 200, reply.body
    return reply.json


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


def test_embeddings_of_a_model_are_told_apart_and_repeat(household: Household) -> None:
    texts = ["A cat sleeps.", "A cat is asleep.", "A cat sleeps.", "x " * 90]
    first = at_home(household, EMBEDDINGS, {"input": texts})
    a, b, again, long = (each["embedding"] for each in first["data"])
    assert a == again
    assert a != b
    assert sum(value * value for value in long) == pytest.approx(1)
    alone = at_home(household, EMBEDDINGS, {"input": texts[1]})
    assert alone["data"][0]["embedding"] == b


def test_tokens_there_and_back(household: Household) -> None:
    told = at_home(household, "/tokenize", {"content": "The sea is deep."})
    back = at_home(household, "/detokenize", {"tokens": told["tokens"]})
    assert back["content"] == "The sea is deep."
    counted = at_home(household, "/v1/messages/count_tokens", HELLO)["input_tokens"]
    usage = at_home(household, MESSAGES, {**HELLO, "max_tokens": 1})["usage"]
    assert counted == usage["input_tokens"] + usage["cache_read_input_tokens"]
