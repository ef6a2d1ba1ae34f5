"""What each dialect reads and writes, with an engine that plays the same answer every time."""

from __future__ import annotations

from typing import Any

import pytest
from played_engine import NAME, PlayedEngine, ask, plan

from engine.events import Failed, FailureKind, Finished, FinishReason, Unloaded
from engine.request import Message, RawPrompt, Role, SamplingParams

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello"}]}
BODIES: dict[str, dict[str, Any]] = {
    CHAT: HELLO,
    TEXT: {"prompt": "Hello"},
    RESPONSES: {"input": "Hello"},
    MESSAGES: {**HELLO, "max_tokens": 9},
}
SAID = ("Good", " day", "!")
THOUGHT = ("<think>\n", "Hm", "m.\n", "</think>\n\n", "Good", " day\n")


def read(path: str, **members: Any) -> Any:
    """The request that the engine gets."""
    engine = PlayedEngine()
    reply = ask(engine.application(), path, BODIES[path] | members)
    assert reply.status == 200, reply.body
    return engine.asked.request


def answered(path: str, engine: PlayedEngine | None = None, **members: Any) -> Any:
    reply = ask((engine or PlayedEngine()).application(), path, BODIES[path] | members)
    assert reply.status == 200, reply.body
    return reply.json


def streamed(path: str, engine: PlayedEngine | None = None, **members: Any) -> list[Any]:
    body = BODIES[path] | {"stream": True} | members
    return ask((engine or PlayedEngine()).application(), path, body).events


def refused(path: str, **members: Any) -> Any:
    engine = PlayedEngine()
    reply = ask(engine.application(), path, BODIES[path] | members)
    assert reply.status == 400, reply.body
    assert engine.commands == []
    return reply.json["error"]


# -- what is read --------------------------------------------------------------------------


@pytest.mark.parametrize("path", BODIES)
def test_sampling_is_read(path: str) -> None:
    request = read(
        path, temperature=0.5, top_p=0.9, top_k=40, min_p=0.1, seed=11, presence_penalty=0.3,
        frequency_penalty=0.2, repetition_penalty=1.1,
    )  # fmt: skip
    assert request.sampling == SamplingParams(0.5, 40, 0.9, 0.1, 1.1, 0.3, 0.2, 11)


@pytest.mark.parametrize("path", BODIES)
def test_without_a_seed_each_answer_has_its_own_and_tells_it(path: str) -> None:
    assert read(path).sampling.seed != read(path).sampling.seed
    assert "seed" in answered(path)


def test_what_is_left_open_is_as_the_model_recommends() -> None:
    engine = PlayedEngine()
    engine.dispatcher.take(plan(SamplingParams(temperature=0.6, top_k=20, top_p=0.95)))
    ask(engine.application(), CHAT, HELLO | {"top_p": 0.5, "seed": 1})
    assert engine.asked.request.sampling == SamplingParams(0.6, 20, 0.5, seed=1)
    assert read(CHAT, seed=1).sampling == SamplingParams(1.0, seed=1)  # it recommends nothing


def test_a_negative_seed_and_top_k_are_taken_as_others_take_them() -> None:
    request = read(CHAT, seed=-1, top_k=-1)
    assert (request.sampling.seed, request.sampling.top_k) == (2**64 - 1, 0)


@pytest.mark.parametrize(
    ("path", "name"),
    [(CHAT, "max_tokens"), (CHAT, "max_completion_tokens"), (TEXT, "max_tokens"),
     (RESPONSES, "max_output_tokens"), (MESSAGES, "max_tokens")],
)  # fmt: skip
def test_lengths_and_stops_are_read(path: str, name: str) -> None:
    stops = "stop_sequences" if path == MESSAGES else "stop"
    request = read(path, **{name: 3, stops: ["a", "b"]})
    assert (request.max_tokens, request.stop) == (3, ("a", "b"))
    assert read(path, **{name: 3.0}).max_tokens == 3


def test_lengths_that_are_left_out() -> None:
    assert [read(path).max_tokens for path in (CHAT, TEXT, RESPONSES)] == [None, 16, None]
    unlimited = [read(path, max_tokens=-1).max_tokens for path in (CHAT, TEXT)]
    assert unlimited == [None, None]  # as clients of LM Studio say it
    engine = PlayedEngine()
    reply = ask(engine.application(), MESSAGES, HELLO)
    assert (reply.status, reply.json["type"]) == (400, "error")
    assert reply.json["error"]["type"] == "invalid_request_error"


def test_conversations_are_read() -> None:
    turns = [
        {"role": "developer", "content": "Be brief."},
        {
            "role": "user",
            "content": [{"type": "text", "text": "He"}, {"type": "text", "text": "y"}],
        },
        {"role": "assistant", "content": "Good day", "reasoning_content": "Hmm."},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "user", "content": "Again"},
    ]
    assert read(CHAT, messages=turns).messages == (
        Message(Role.SYSTEM, "Be brief."),
        Message(Role.USER, "Hey"),
        Message(Role.ASSISTANT, "<think>\nHmm.\n</think>\n\nGood day"),
        Message(Role.ASSISTANT, ""),
        Message(Role.USER, "Again"),
    )


def test_conversations_of_responses_are_read() -> None:
    turns = [
        {"role": "user", "content": [{"type": "input_text", "text": "Hey"}]},
        {"type": "reasoning", "summary": []},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Hi"}],
        },
        {"role": "user", "content": "Again"},
    ]
    request = read(RESPONSES, input=turns, instructions="Be brief.")
    assert [message.text for message in request.messages] == ["Be brief.", "Hey", "Hi", "Again"]


def test_conversations_of_anthropics_clients_are_read() -> None:
    turns = [
        {"role": "user", "content": "Hey"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": ""},
            {"type": "text", "text": "Hi"},
        ]},
        {"role": "user", "content": "Again"},
    ]  # fmt: skip
    system = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    request = read(MESSAGES, messages=turns, system=system)
    assert [message.text for message in request.messages] == ["Be brief.", "Hey", "Hi", "Again"]


@pytest.mark.parametrize(
    ("members", "thinking"),
    [
        ({}, None),
        ({"reasoning_effort": "none"}, False),
        ({"reasoning_effort": "high"}, None),
        ({"chat_template_kwargs": {"enable_thinking": False}}, False),
        ({"chat_template_kwargs": {"thinking": True}}, True),
    ],
)
def test_the_wish_to_think_is_read(members: Any, thinking: bool | None) -> None:
    assert read(CHAT, **members).thinking is thinking


def test_the_wish_to_think_of_other_dialects_is_read() -> None:
    assert read(MESSAGES, thinking={"type": "disabled"}).thinking is False
    assert read(MESSAGES, thinking={"type": "enabled", "budget_tokens": 1024}).thinking is True
    assert read(RESPONSES, reasoning={"effort": "none"}).thinking is False


@pytest.mark.parametrize(
    ("prompt", "more", "raw"),
    [
        ("Once", {}, RawPrompt("Once")),
        (["Once"], {}, RawPrompt("Once")),
        ([5, 6], {}, RawPrompt(ids=(5, 6))),
        ([[5, 6]], {}, RawPrompt(ids=(5, 6))),
        ("<|end|>", {"parse_special": True}, RawPrompt("<|end|>", control_tokens=True)),
    ],
)
def test_prompts_are_read(prompt: Any, more: Any, raw: RawPrompt) -> None:
    request = read(TEXT, prompt=prompt, **more)
    assert (request.raw, request.messages) == (raw, ())


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize(
    "members",
    [
        {"temperature": "hot"}, {"temperature": -1}, {"temperature": True}, {"top_p": 0},
        {"top_p": 1.5}, {"top_k": 1.5}, {"min_p": []}, {"seed": "one"}, {"seed": 2**64},
        {"presence_penalty": 3}, {"stream": "yes"}, {"model": 7}, {"repetition_penalty": 0},
        {"frequency_penalty": {}},
    ],
    ids=str,
)  # fmt: skip
def test_wrong_values_are_refused_by_name(path: str, members: Any) -> None:
    error = refused(path, **members)
    (name,) = members
    assert name in error["message"]
    assert error["type"] == "invalid_request_error"
    if path != MESSAGES:
        assert error["param"] == name


@pytest.mark.parametrize(
    ("path", "members"),
    [
        (CHAT, {"messages": []}), (CHAT, {"messages": "Hello"}), (CHAT, {"messages": [1]}),
        (CHAT, {"messages": [{"role": "user"}]}), (CHAT, {"messages": None}),
        (CHAT, {"messages": [{"content": "Hello"}]}),
        (CHAT, {"messages": [{"role": "tool", "content": "Hello"}]}),
        (CHAT, {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
        (CHAT, {"messages": [{"role": "user", "content": "\ud800"}]}),
        (CHAT, {"stop": ["a"] * 65}), (CHAT, {"stop": [1]}), (CHAT, {"stop": {"a": 1}}),
        (CHAT, {"max_tokens": 0}), (CHAT, {"n": 2}), (CHAT, {"logit_bias": {"5": 1}}),
        (CHAT, {"tools": [{"type": "function"}]}), (CHAT, {"top_logprobs": 3}),
        (CHAT, {"tools": [{"type": "function"}], "tool_choice": "auto"}),
        (CHAT, {"functions": [{"name": "x"}]}), (CHAT, {"web_search_options": {}}),
        (CHAT, {"modalities": ["text", "audio"]}), (CHAT, {"audio": {"voice": "x"}}),
        (CHAT, {"chat_template": "{{ x }}"}), (CHAT, {"repeat_penalty": 0}),
        (CHAT, {"messages": [
            {"role": "assistant", "content": "", "function_call": {"name": "x"}},
        ]}),
        (TEXT, {"logit_bias": {"5": 1}}), (TEXT, {"grammar": "root ::= x"}),
        (RESPONSES, {"tools": [{"type": "web_search"}]}), (RESPONSES, {"min_tokens": 5}),
        (MESSAGES, {"mcp_servers": [{"url": "x"}]}), (MESSAGES, {"ignore_eos": True}),
        (MESSAGES, {"output_config": {"format": {"type": "json_schema"}}}),
        (CHAT, {"logprobs": True, "top_logprobs": 21}), (CHAT, {"logprobs": 1}),
        (CHAT, {"response_format": {"type": "json_object"}}), (CHAT, {"stream_options": 1}),
        (TEXT, {"prompt": None}), (TEXT, {"prompt": []}), (TEXT, {"prompt": ["a", "b"]}),
        (TEXT, {"prompt": [-1]}), (TEXT, {"prompt": [True]}), (TEXT, {"prompt": {"a": 1}}),
        (TEXT, {"echo": True}), (TEXT, {"suffix": "end"}), (TEXT, {"best_of": 2}),
        (RESPONSES, {"input": []}), (RESPONSES, {"input": 1}), (RESPONSES, {"input": None}),
        (RESPONSES, {"input": [{"type": "function_call"}]}), (RESPONSES, {"instructions": 1}),
        (RESPONSES, {"previous_response_id": "resp_1"}), (RESPONSES, {"background": True}),
        (RESPONSES, {"text": {"format": {"type": "json_schema"}}}),
        (MESSAGES, {"messages": [{"role": "system", "content": "Hello"}]}),
        (MESSAGES, {"max_tokens": None}), (MESSAGES, {"thinking": True}),
        (MESSAGES, {"tools": [{"name": "x"}]}), (MESSAGES, {"system": 1}),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_not_understood_or_supported_is_refused(path: str, members: Any) -> None:
    assert refused(path, **members)["message"]


TOOL = {"type": "function", "function": {"name": "x"}}


@pytest.mark.parametrize(
    ("path", "members"),
    [
        (CHAT, {"n": 1, "n_predict": 9}), (CHAT, {"tools": []}), (CHAT, {"tools": None}),
        (CHAT, {"tool_choice": "none"}), (CHAT, {"tool_choice": "auto"}),
        (CHAT, {"tools": [TOOL], "tool_choice": "none"}), (CHAT, {"functions": []}),
        (CHAT, {"functions": [{"name": "x"}], "function_call": "none"}),
        (CHAT, {"parallel_tool_calls": True}), (CHAT, {"response_format": {"type": "text"}}),
        (CHAT, {"response_format": None}), (CHAT, {"stream_options": None}),
        (CHAT, {"stream_options": {"include_usage": True, "include_obfuscation": False}}),
        (CHAT, {"stream_options": {"include_usage": None}}), (CHAT, {"stream": None}),
        (CHAT, {"user": "u", "safety_identifier": "s", "prompt_cache_key": "k"}),
        (CHAT, {"store": True, "metadata": {"a": "b"}, "service_tier": "auto"}),
        (CHAT, {"logit_bias": {}}), (CHAT, {"logit_bias": None}), (CHAT, {"logit_bias": []}),
        (CHAT, {"logprobs": False, "top_logprobs": 0}), (CHAT, {"top_logprobs": None}),
        (CHAT, {"reasoning_effort": "medium", "verbosity": "low"}),
        (CHAT, {"modalities": ["text"], "audio": None, "prediction": {"type": "content"}}),
        (CHAT, {"max_tokens": None, "max_completion_tokens": None}), (CHAT, {"stop": None}),
        (CHAT, {"stop": []}), (CHAT, {"stop": ""}), (CHAT, {"stop": [""]}),
        (CHAT, {"temperature": None, "top_p": None, "seed": None, "presence_penalty": None}),
        (CHAT, {"temperature": 2, "top_p": 1, "frequency_penalty": 0, "presence_penalty": 0.0}),
        (CHAT, {"chat_id": "c", "session_id": "s", "id": "i", "features": {}, "num_ctx": 4096}),
        (CHAT, {"typical_p": 1, "tfs_z": 1.0, "top_a": 0, "mirostat": 0, "xtc_probability": 0}),
        (CHAT, {"dry_multiplier": 0, "min_tokens": 0, "ignore_eos": False, "top_n_sigma": -1}),
        (CHAT, {"grammar": "", "json_schema": {}, "guided_json": None, "cache_prompt": True}),
        (CHAT, {"add_generation_prompt": True, "continue_final_message": False}),
        (CHAT, {"messages": [
            {"role": "system", "content": [{"type": "text", "text": "Brief."}]},
            {"role": "user", "name": "me", "content": [
                {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}},
            ]},
            {"role": "assistant", "content": "Yes", "refusal": None, "audio": None,
             "annotations": [], "tool_calls": None, "function_call": None},
            {"role": "developer", "content": "Briefer."},
            {"role": "user", "content": ""},
        ]}),
        (TEXT, {"n": 1, "best_of": 1, "echo": False, "suffix": None, "logprobs": None}),
        (TEXT, {"suffix": "", "logit_bias": {}, "user": "u", "stream_options": None}),
        (RESPONSES, {"store": True, "metadata": {}, "include": ["reasoning.encrypted_content"]}),
        (RESPONSES, {"tools": [], "tool_choice": "auto", "parallel_tool_calls": True}),
        (RESPONSES, {"truncation": "auto", "service_tier": "auto", "user": "u"}),
        (RESPONSES, {"text": {"format": {"type": "text"}, "verbosity": "low"}}),
        (RESPONSES, {"reasoning": {"effort": "low", "summary": "auto"}, "background": False}),
        (RESPONSES, {"previous_response_id": None, "prompt_cache_key": "k"}),
        (MESSAGES, {"metadata": {"user_id": "u"}, "service_tier": "auto", "tools": []}),
        (MESSAGES, {"tools": [{"name": "x"}], "tool_choice": {"type": "none"}}),
        (MESSAGES, {"stop_sequences": [], "system": None, "container": None, "mcp_servers": []}),
        (MESSAGES, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}),
        (MESSAGES, {"cache_control": {"type": "ephemeral"}, "context_management": None}),
    ],
    ids=str,
)  # fmt: skip
def test_what_chat_clients_send_and_changes_nothing_is_accepted(path: str, members: Any) -> None:
    """Members that Open WebUI, LibreChat, Continue, Cline, SillyTavern and the SDKs send."""
    request = read(path, **members)
    assert request.stop == ()
    assert request.alternatives == 0
    assert request.sampling.repetition_penalty == 1


def test_the_repetition_penalty_has_two_names() -> None:
    assert read(CHAT, repeat_penalty=1.2).sampling.repetition_penalty == 1.2
    both = read(CHAT, repeat_penalty=1.2, repetition_penalty=1.3)
    assert both.sampling.repetition_penalty == 1.3


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'"text"', b"\xff\xfe", b"{} {}", b'{"temperature": NaN}',
     b'{"temperature": Infinity}', b"[" * 100_000, b'{"seed": ' + b"9" * 5000 + b"}"],
    ids=lambda body: str(body[:20]),
)  # fmt: skip
def test_bodies_that_are_no_json_objects_are_refused(body: bytes) -> None:
    reply = ask(PlayedEngine().application(), CHAT, body)
    assert reply.status == 400
    assert "Traceback" not in reply.json["error"]["message"]


def test_models_are_not_loaded_by_requests() -> None:
    app = PlayedEngine().application()
    for model in ("gpt-4o", "/etc/passwd", "../model.gguf", "https://example.com/model.gguf"):
        reply = ask(app, CHAT, HELLO | {"model": model})
        assert (reply.status, reply.json["error"]["code"]) == (404, "model_not_found")
    assert ask(app, CHAT, HELLO | {"model": NAME}).status == 200


# -- what is written -----------------------------------------------------------------------


def test_a_chat_completion() -> None:
    whole = answered(CHAT)
    assert whole["object"] == "chat.completion"
    assert whole["id"].startswith("chatcmpl-")
    assert (whole["model"], whole["system_fingerprint"], whole["seed"]) == (NAME, "cpu:q8", 7)
    (choice,) = whole["choices"]
    assert choice["message"] == {"role": "assistant", "content": "Good day!", "refusal": None}
    assert (choice["index"], choice["finish_reason"], choice["logprobs"]) == (0, "stop", None)
    usage = whole["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (5, 3, 8)
    assert usage["prompt_tokens_details"] == {"cached_tokens": 2}


@pytest.mark.parametrize("path", BODIES)
def test_usage_says_what_was_drafted_and_accepted(path: str) -> None:
    speculation = answered(path)["usage"]["speculation"]
    assert (speculation["drafted"], speculation["accepted"]) == (4, 3)
    assert (speculation["acceptance_length"], speculation["mode"]) == (2.5, "cpu")


def test_a_streamed_chat_completion() -> None:
    *chunks, done = streamed(CHAT)
    assert done == "[DONE]"
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert "".join(delta.get("content", "") for delta in deltas) == "Good day!"
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * 4 + ["stop"]
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert "usage" not in chunks[-1]


def test_a_streamed_text_tells_usage_where_it_is_wanted() -> None:
    *chunks, last = streamed(TEXT, stream_options={"include_usage": True})[:-1]
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 3
    assert not any(chunk.get("usage") for chunk in chunks)
    assert not any("usage" in chunk for chunk in streamed(TEXT)[:-1])


def test_a_stream_tells_usage_where_it_is_wanted() -> None:
    *chunks, last, _ = streamed(CHAT, stream_options={"include_usage": True})
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 3
    assert [chunk["usage"] for chunk in chunks] == [None] * len(chunks)


@pytest.mark.parametrize(
    ("reason", "openai", "anthropic", "status"),
    [
        (FinishReason.STOP, "stop", "end_turn", "completed"),
        (FinishReason.LENGTH, "length", "max_tokens", "incomplete"),
        (FinishReason.CONTEXT, "length", "max_tokens", "incomplete"),
    ],
)
def test_reasons_of_the_end(reason: FinishReason, openai: str, anthropic: str, status: str) -> None:
    engine = PlayedEngine(reason=reason)
    assert answered(CHAT, engine)["choices"][0]["finish_reason"] == openai
    assert answered(TEXT, engine)["choices"][0]["finish_reason"] == openai
    assert answered(MESSAGES, engine)["stop_reason"] == anthropic
    assert answered(RESPONSES, engine)["status"] == status
    assert streamed(RESPONSES, engine)[-1]["type"] == f"response.{status}"


def test_thoughts_are_told_apart() -> None:
    engine = PlayedEngine(tokens=THOUGHT)
    message = answered(CHAT, engine)["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == ("Hmm.", "Good day\n")
    assert answered(CHAT, engine)["usage"]["completion_tokens_details"] == {"reasoning_tokens": 2}
    blocks = answered(MESSAGES, engine)["content"]
    assert [block["type"] for block in blocks] == ["thinking", "text"]
    assert (blocks[0]["thinking"], blocks[1]["text"]) == ("Hmm.", "Good day\n")
    items = answered(RESPONSES, engine)["output"]
    assert [item["type"] for item in items] == ["reasoning", "message"]
    assert [item["content"][0]["text"] for item in items] == ["Hmm.", "Good day\n"]


def test_thoughts_are_streamed_apart() -> None:
    engine = PlayedEngine(tokens=THOUGHT)
    deltas = [chunk["choices"][0]["delta"] for chunk in streamed(CHAT, engine)[:-1]]
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == "Hmm."
    assert "".join(delta.get("content", "") for delta in deltas) == "Good day\n"
    events = streamed(MESSAGES, engine)
    started = [e["content_block"]["type"] for e in events if e["type"] == "content_block_start"]
    assert started == ["thinking", "text"]


def test_what_might_have_begun_a_thought_comes_at_the_end() -> None:
    engine = PlayedEngine(tokens=("Good", " <thi"))
    deltas = [chunk["choices"][0]["delta"] for chunk in streamed(CHAT, engine)[:-1]]
    assert "".join(delta.get("content", "") for delta in deltas) == "Good <thi"
    assert answered(CHAT, engine)["choices"][0]["message"]["content"] == "Good <thi"


def test_a_text_completion_shows_everything() -> None:
    engine = PlayedEngine(tokens=THOUGHT)
    assert answered(TEXT, engine)["choices"][0]["text"] == "".join(THOUGHT)
    chunks = streamed(TEXT, engine)[:-1]
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == "".join(THOUGHT)


def test_logprobs_of_a_chat() -> None:
    told = answered(CHAT, logprobs=True)["choices"][0]["logprobs"]["content"]
    assert [entry["token"] for entry in told] == list(SAID)
    assert [entry["logprob"] for entry in told] == pytest.approx([-0.693147] * 3)
    assert told[0]["bytes"] == list(b"Good")
    chunks = streamed(CHAT, logprobs=True)[:-1]
    parts = [chunk["choices"][0]["logprobs"] for chunk in chunks]
    assert [each["token"] for part in parts if part for each in part["content"]] == list(SAID)


def test_logprobs_of_a_chat_are_those_of_what_is_said() -> None:
    engine = PlayedEngine(tokens=THOUGHT)
    told = answered(CHAT, engine, logprobs=True)["choices"][0]["logprobs"]["content"]
    assert [entry["token"] for entry in told] == ["Good", " day\n"]


def test_logprobs_of_a_text() -> None:
    told = answered(TEXT, logprobs=0)["choices"][0]["logprobs"]
    assert (told["tokens"], told["text_offset"]) == (list(SAID), [0, 4, 8])
    chunks = streamed(TEXT, logprobs=1)[:-1]
    offsets = [chunk["choices"][0]["logprobs"] for chunk in chunks]
    assert [part["text_offset"] for part in offsets if part] == [[0], [4], [8]]


def test_a_message() -> None:
    whole = answered(MESSAGES)
    assert (whole["type"], whole["role"], whole["model"]) == ("message", "assistant", NAME)
    assert whole["content"] == [{"type": "text", "text": "Good day!"}]
    assert (whole["usage"]["input_tokens"], whole["usage"]["output_tokens"]) == (3, 3)


def test_a_message_says_which_text_stopped_it() -> None:
    whole = answered(MESSAGES, PlayedEngine(stop="END"), stop_sequences=["END"])
    assert (whole["stop_reason"], whole["stop_sequence"]) == ("stop_sequence", "END")
    # A stop of the template's own is the end of the turn.
    whole = answered(MESSAGES, PlayedEngine(stop="User:"), stop_sequences=["END"])
    assert (whole["stop_reason"], whole["stop_sequence"]) == ("end_turn", None)


def test_a_streamed_message() -> None:
    events = streamed(MESSAGES)
    assert [event["type"] for event in events] == [
        "message_start", "content_block_start", *["content_block_delta"] * 3,
        "content_block_stop", "message_delta", "message_stop",
    ]  # fmt: skip
    assert events[0]["message"]["usage"]["input_tokens"] == 5
    assert "".join(e["delta"]["text"] for e in events[2:5]) == "Good day!"
    assert events[-2]["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}


def test_a_message_without_a_word_has_an_empty_block() -> None:
    engine = PlayedEngine(tokens=())
    assert answered(MESSAGES, engine)["content"] == [{"type": "text", "text": ""}]
    kinds = [event["type"] for event in streamed(MESSAGES, engine)]
    assert kinds[1:3] == ["content_block_start", "content_block_stop"]


def test_a_response() -> None:
    whole = answered(RESPONSES)
    assert (whole["object"], whole["status"], whole["store"]) == ("response", "completed", False)
    (item,) = whole["output"]
    assert (item["type"], item["role"], item["status"]) == ("message", "assistant", "completed")
    assert item["content"][0]["text"] == "Good day!"
    assert (whole["usage"]["input_tokens"], whole["usage"]["output_tokens"]) == (5, 3)


def test_a_streamed_response() -> None:
    events = streamed(RESPONSES)
    assert [event["type"] for event in events] == [
        "response.created", "response.in_progress", "response.output_item.added",
        "response.content_part.added", *["response.output_text.delta"] * 3,
        "response.output_text.done", "response.content_part.done", "response.output_item.done",
        "response.completed",
    ]  # fmt: skip
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    done = {event["type"]: event for event in events}
    assert done["response.output_text.done"]["text"] == "Good day!"
    assert done["response.completed"]["response"]["output"][0]["content"][0]["text"] == "Good day!"
    assert len({event["item_id"] for event in events if "item_id" in event}) == 1


# -- what goes wrong -----------------------------------------------------------------------


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("failure", "status"),
    [
        ({"kind": FailureKind.CONTEXT_FULL}, 400),
        ({"kind": FailureKind.OUT_OF_MEMORY}, 503),
        ({"bug": True}, 500),
        ({}, 400),
    ],
    ids=str,
)
def test_failures_have_words_and_no_details(
    path: str, stream: bool, failure: Any, status: int
) -> None:
    """Before the first word, a stream is refused like any request."""
    engine = PlayedEngine()
    told = Failed(0.0, "server-x", "It did not fit.", "Ask less.", "Traceback: secret", **failure)
    engine.failure = told
    reply = ask(engine.application(), path, BODIES[path] | {"stream": stream})
    assert reply.status == status
    assert "It did not fit." in reply.json["error"]["message"]
    assert b"Traceback" not in reply.body
    if path != MESSAGES and failure.get("kind") is FailureKind.CONTEXT_FULL:
        assert reply.json["error"]["code"] == "context_length_exceeded"


@pytest.mark.parametrize("path", BODIES)
def test_an_answer_that_is_stopped_at_the_server_says_so(path: str) -> None:
    engine = PlayedEngine(reason=FinishReason.STOPPED)
    reply = ask(engine.application(), path, BODIES[path])
    assert reply.status == 503
    last = streamed(path, engine)[-1]
    error = last["response"]["error"] if path == RESPONSES else last["error"]
    assert "stopped" in error["message"]


class Broken(PlayedEngine):
    """Ends in an error behind its last token; with a `stop`, the model is gone by then."""

    def _finished(self, name: str, *_: Any) -> Finished:
        if self.stop:
            self.dispatcher.take(Unloaded(0.0))
        return super()._finished(name, FinishReason.ERROR, self.tokens)


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize(
    ("stop", "status", "words"), [("", 500, "The answer failed."), ("gone", 503, "model")]
)
def test_an_answer_that_ends_in_an_error_of_no_words(
    path: str, stop: str, status: int, words: str
) -> None:
    reply = ask(Broken(stop=stop).application(), path, BODIES[path])
    assert reply.status == status
    assert words in reply.json["error"]["message"]


@pytest.mark.parametrize("path", BODIES)
def test_a_failure_in_the_middle_of_a_stream_is_told_in_it(path: str) -> None:
    class Failing(PlayedEngine):
        def _finished(self, name: str, *_: Any) -> Finished:
            self._tell(Failed(0.0, name, "The GPU is gone.", "Load the model again."))
            return super()._finished(name, FinishReason.ERROR, self.tokens)

    last = streamed(path, Failing())[-1]
    error = last["response"]["error"] if path == RESPONSES else last["error"]
    assert "The GPU is gone." in error["message"]


@pytest.mark.parametrize("path", BODIES)
def test_without_a_model_there_is_no_answer(path: str) -> None:
    engine = PlayedEngine()
    engine.dispatcher.take(Unloaded(0.0))
    app = engine.application()
    reply = ask(app, path, BODIES[path])
    assert (reply.status, reply.headers["retry-after"]) == (503, "5")
    assert ask(app, "/health").status == 503
    assert ask(app, "/v1/models").json["data"] == []


def test_models_are_told_by_name_and_never_by_path() -> None:
    app = PlayedEngine().application()
    listed = ask(app, "/v1/models")
    (model,) = listed.json["data"]
    assert (model["id"], model["object"], model["context_length"]) == (NAME, "model", 512)
    assert b"/" not in listed.body
    assert ask(app, f"/v1/models/{NAME}").json == model
    assert ask(app, "/v1/models/other").status == 404


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [("/", "GET", 404), ("/v1", "GET", 404), ("/docs", "GET", 404), (CHAT, "GET", 405),
     ("/v1/models", "DELETE", 405), ("/v1/embeddings", "GET", 404), (CHAT, "PUT", 405)],
)  # fmt: skip
def test_other_paths_and_methods(path: str, method: str, status: int) -> None:
    assert ask(PlayedEngine().application(), path, method=method).status == status
