"""What each dialect reads: the request that the engine gets, and what is refused."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from dialect_bodies import BODIES, CHAT, HELLO, MESSAGES, RESPONSES, TEXT, answered
from played_engine import NAME, PlayedEngine, ask, plan

from engine.request import Message, RawPrompt, Role, SamplingParams, ToolCall


def read(path: str, **members: Any) -> Any:
    """The request that the engine gets."""
    engine = PlayedEngine()
    reply = ask(engine.application(), path, BODIES[path] | members)
    assert reply.status == 200, reply.body
    return engine.asked.request


def refused(path: str, **members: Any) -> Any:
    engine = PlayedEngine()
    reply = ask(engine.application(), path, BODIES[path] | members)
    assert reply.status == 400, reply.body
    assert engine.commands == []
    return reply.json["error"]


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
    usual = SamplingParams(0.8, 40, 0.95, 0.05, seed=1)  # where it recommends nothing
    assert read(CHAT, seed=1).sampling == usual


def test_a_negative_seed_and_top_k_are_taken_as_others_take_them() -> None:
    request = read(CHAT, seed=-2, top_k=-1)
    assert (request.sampling.seed, request.sampling.top_k) == (2**64 - 2, 0)


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


def test_the_systems_words_among_anthropics_messages_stand_before_the_question() -> None:
    """Claude Code tells of its surroundings behind what the user asks."""
    turns = [
        {"role": "user", "content": "What is wrong?"},
        {"role": "system", "content": "It is Saturday."},
        {"role": "system", "content": "It rains."},
        {"role": "assistant", "content": "Nothing."},
    ]
    messages = read(MESSAGES, messages=turns, system="Be brief.").messages
    assert [each.text for each in messages] == [
        "Be brief.", "It is Saturday.", "It rains.", "What is wrong?", "Nothing.",
    ]  # fmt: skip
    refused(MESSAGES, messages=[{"role": "tool", "content": "x"}])


@pytest.mark.parametrize(
    ("members", "thinking"),
    [
        ({}, None),
        ({"reasoning_effort": "none"}, False),
        ({"reasoning_effort": "high"}, None),
        ({"enable_thinking": False}, False),
        ({"think": False}, False),
        ({"think": "low"}, None),
        ({"thinking": {"type": "disabled"}}, False),
        ({"thinking": {"type": "adaptive"}}, None),
        ({"reasoning": {"effort": "none"}}, False),
        ({"reasoning": {"enabled": True}}, True),
        ({"chat_template_kwargs": {"enable_thinking": True}, "think": False}, True),
        ({"chat_template_kwargs": {"enable_thinking": False}}, False),
        ({"chat_template_kwargs": {"thinking": True}}, True),
    ],
)
def test_the_wish_to_think_is_read(members: Any, thinking: bool | None) -> None:
    assert read(CHAT, **members).thinking is thinking


@pytest.mark.parametrize(
    "members",
    [
        {"reasoning_effort": "low"},
        {"think": "low"},
        {"reasoning": {"effort": "low"}},
        {"chat_template_kwargs": {"reasoning_effort": "low"}},
    ],
)
def test_how_much_to_think_is_read(members: Any) -> None:
    assert read(CHAT, **members).effort == "low"
    assert read(CHAT, **members).thinking is None


@pytest.mark.parametrize(
    ("members", "thinking", "budget"),
    [
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, True, 1024),
        ({"thinking_budget": 64}, None, 64),
        ({"thinking_budget_tokens": 64, "reasoning_budget": 5}, None, 64),
        ({"thinking_token_budget": 64}, None, 64),
        ({"reasoning_budget": 0}, False, None),
        ({"reasoning_budget": -1}, None, None),
        ({"reasoning": {"max_tokens": 64}}, None, 64),
        ({"chat_template_kwargs": {"thinking_budget": 64}}, None, 64),
    ],
)
def test_how_long_to_think_is_read(members: Any, thinking: bool | None, budget: int | None) -> None:
    request = read(CHAT, **members)
    assert (request.thinking, request.thought_tokens) == (thinking, budget)
    assert "thinking_budget" in refused(CHAT, thinking_budget=-2)["message"]


def test_a_wish_to_think_that_means_nothing_is_refused() -> None:
    assert '"hard" as reasoning_effort' in refused(CHAT, reasoning_effort="hard")["message"]
    assert '"on" as thinking.type' in refused(CHAT, thinking={"type": "on"})["message"]


def test_tools_in_the_history_are_read() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
    expected = (
        Message(Role.USER, "Hey"),
        Message(Role.ASSISTANT, "So", calls=(ToolCall("1", "add", '{"a": 1}'),)),
        Message(Role.TOOL, "2", call_id="1"),
    )
    chat = [
        {"role": "user", "content": "Hey"},
        {"role": "assistant", "content": "So", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "2"},
    ]
    assert read(CHAT, messages=chat).messages == expected
    anthropic = [
        {"role": "user", "content": "Hey"},
        {"role": "assistant", "content": [
            {"type": "text", "text": "So"},
            {"type": "tool_use", "id": "1", "name": "add", "input": {"a": 1}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "2"}]},
        ]},
    ]  # fmt: skip
    assert read(MESSAGES, messages=anthropic).messages == expected
    responses = [
        {"role": "user", "content": "Hey"},
        {"role": "assistant", "content": "So"},
        {"type": "item_reference", "id": "x"},
        {"type": "function_call", "call_id": "1", "name": "add", "arguments": '{"a": 1}'},
        {"type": "function_call_output", "call_id": "1", "output": "2"},
    ]
    assert read(RESPONSES, input=responses).messages == expected


def test_a_seed_of_minus_one_is_any(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = count()
    monkeypatch.setattr("secrets.randbits", lambda _bits: next(drawn))
    first, second = (read(CHAT, seed=-1).sampling.seed for _ in range(2))
    assert first < second < 100


def test_the_wish_to_think_of_other_dialects_is_read() -> None:
    assert read(MESSAGES, thinking={"type": "disabled"}).thinking is False
    assert read(MESSAGES, thinking={"type": "enabled", "budget_tokens": 1024}).thinking is True
    assert read(RESPONSES, reasoning={"effort": "none"}).thinking is False


@pytest.mark.parametrize(
    ("prompt", "more", "raw"),
    [
        ("Once", {}, RawPrompt("Once", control_tokens=True)),
        (["Once"], {}, RawPrompt("Once", control_tokens=True)),
        ([5, 6], {}, RawPrompt(ids=(5, 6))),
        ([[5, 6]], {}, RawPrompt(ids=(5, 6))),
        ("<|end|>", {"parse_special": False}, RawPrompt("<|end|>")),
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


TOOL = {"type": "function", "function": {"name": "x"}}
OTHER_TOOL = {"type": "function", "function": {"name": "y"}}


@pytest.mark.parametrize(
    ("path", "members"),
    [
        (CHAT, {"messages": []}), (CHAT, {"messages": "Hello"}), (CHAT, {"messages": [1]}),
        (CHAT, {"messages": [{"role": "user"}]}), (CHAT, {"messages": None}),
        (CHAT, {"messages": [{"content": "Hello"}]}),
        (CHAT, {"messages": [{"role": "tool", "content": [{"type": "image_url"}]}]}),
        (CHAT, {"messages": [{"role": "assistant", "tool_calls": [{"type": "custom"}]}]}),
        (CHAT, {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
        (CHAT, {"messages": [{"role": "user", "content": "\ud800"}]}),
        (CHAT, {"stop": ["a"] * 65}), (CHAT, {"stop": [1]}), (CHAT, {"stop": {"a": 1}}),
        (CHAT, {"max_tokens": 0}), (CHAT, {"n": 300}), (CHAT, {"logit_bias": {"5": "1"}}),
        (CHAT, {"tools": [], "tool_choice": "required"}), (CHAT, {"top_logprobs": 3}),
        (CHAT, {"tools": [OTHER_TOOL], "tool_choice": TOOL}),
        (CHAT, {"function_call": {"name": "x"}}), (CHAT, {"web_search_options": {}}),
        (CHAT, {"modalities": ["text", "audio"]}), (CHAT, {"audio": {"voice": "x"}}),
        (CHAT, {"chat_template": "{{ x }}"}), (CHAT, {"repeat_penalty": 0}),
        (CHAT, {"messages": [
            {"role": "assistant", "content": "", "function_call": {"arguments": "{}"}},
        ]}),
        (TEXT, {"logit_bias": {"ten": 1}}), (TEXT, {"grammar": "root ::= x"}),
        (RESPONSES, {"tool_choice": {"type": "web_search"}}), (RESPONSES, {"min_tokens": 5}),
        (MESSAGES, {"mcp_servers": [{"url": "x"}]}), (MESSAGES, {"ignore_eos": True}),
        (MESSAGES, {"output_config": {"format": {"type": "json_schema"}}}),
        (CHAT, {"logprobs": True, "top_logprobs": 21}), (CHAT, {"logprobs": 1}),
        (CHAT, {"response_format": {"type": "xml"}}), (CHAT, {"stream_options": 1}),
        (TEXT, {"prompt": None}), (TEXT, {"prompt": []}), (TEXT, {"prompt": ["a", 2]}),
        (TEXT, {"prompt": [-1]}), (TEXT, {"prompt": [True]}), (TEXT, {"prompt": {"a": 1}}),
        (TEXT, {"echo": "yes"}), (TEXT, {"suffix": 5}), (TEXT, {"best_of": 2}),
        (RESPONSES, {"input": []}), (RESPONSES, {"input": 1}), (RESPONSES, {"input": None}),
        (RESPONSES, {"input": [{"type": "function_call"}]}), (RESPONSES, {"instructions": 1}),
        (RESPONSES, {"previous_response_id": "resp_1"}), (RESPONSES, {"background": True}),
        (RESPONSES, {"text": {"format": {"type": "json_schema"}}}),
        (MESSAGES, {"messages": [{"role": "system", "content": "Hello"}]}),
        (MESSAGES, {"max_tokens": None}), (MESSAGES, {"thinking": 1}),
        (MESSAGES, {"tool_choice": {"type": "any"}}), (MESSAGES, {"system": 1}),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_not_understood_or_supported_is_refused(path: str, members: Any) -> None:
    assert refused(path, **members)["message"]


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
         '"image_url" as messages[0].content[0].type'),
        ({"tools": [TOOL], "tool_choice": "many"}, '"many" as tool_choice'),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_not_supported_is_named_with_its_value(members: Any, words: str) -> None:
    assert refused(CHAT, **members)["message"] == f"This server does not support {words}."


@pytest.mark.parametrize(
    ("path", "members"),
    [
        (CHAT, {"n": 1, "n_predict": 9}), (CHAT, {"tools": []}), (CHAT, {"tools": None}),
        (CHAT, {"tool_choice": "none"}), (CHAT, {"tool_choice": "auto"}),
        (CHAT, {"tools": [TOOL], "tool_choice": "none"}), (CHAT, {"functions": []}),
        (CHAT, {"tools": [TOOL]}), (CHAT, {"tools": [TOOL], "tool_choice": "auto"}),
        (CHAT, {"functions": [{"name": "x"}], "function_call": "auto"}),
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
        (MESSAGES, {"tools": [{"name": "x"}], "tool_choice": {"type": "auto"}}),
        (RESPONSES, {"tools": [{"type": "web_search"}], "tool_choice": "auto"}),
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
