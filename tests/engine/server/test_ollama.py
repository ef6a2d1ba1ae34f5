"""Ollama's interface: chat, generate, pages, errors."""

from __future__ import annotations

from typing import Any

import pytest
from dialect_bodies import (
    HELLO,
    streamed,
    told,
)
from played_engine import NAME, PlayedEngine, ask

from engine.commands import Generate
from engine.events import Failed
from engine.request import RawPrompt, Role

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
