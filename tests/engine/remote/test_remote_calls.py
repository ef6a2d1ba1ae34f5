"""Tools of models on servers: offered, called in their streams, answered in the history."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from elsewhere import QUESTION, Elsewhere
from played_server import DONE, PlayedServer, event, head, page, said

from engine.commands import Connect, ServerKind
from engine.events import FinishReason
from engine.model.text.tool_calls import ToolCallParser
from engine.remote.calls import MOST_CALLS
from engine.remote.payload import payload
from engine.request import ChatRequest, Message, Role, Tool, ToolCall, ToolChoice

Play = Callable[..., PlayedServer]
Views = Callable[..., Elsewhere]

SUM = Tool("add", "Adds.", '{"type": "object", "properties": {"a": {"type": "integer"}}}')
OTHER = Tool("other")
OFFERED = ToolChoice((SUM, OTHER))


def calls_of(text: str) -> list[tuple[str, object]]:
    """What the window reads as calls in an answer."""
    parser = ToolCallParser(OFFERED.tools)
    read = [*parser.feed(text), *parser.finish()]
    return [(each.name, json.loads(each.arguments)) for each in read if isinstance(each, ToolCall)]


def piece(index: int | None = 0, **function: str) -> dict[str, object]:
    found: dict[str, object] = {"type": "function"}
    if index is not None:
        found["index"] = index
    if (call_id := function.pop("id", None)) is not None:
        found["id"] = call_id
    return found | {"function": function}


def chunk(*pieces: dict[str, object], reason: str | None = None, **delta: object) -> bytes:
    told = {"tool_calls": list(pieces), **delta} if pieces else delta
    return event(choices=[{"index": 0, "delta": told, "finish_reason": reason}])


def answered(play: Play, elsewhere: Views, *chunks: bytes, tools: ToolChoice = OFFERED) -> Any:
    server = play(lambda _: [head(), *chunks, DONE])
    view = elsewhere()
    view.connect(server.url)
    finished = view.answer(ChatRequest("a", QUESTION, tools=tools))
    assert view.text == finished.text
    return finished, server.heard[-1].json


STREAMS = {
    "piece by piece": [
        said("Let me see."),
        chunk(piece(0, id="x", name="add", arguments="")),
        *[chunk(piece(0, arguments=text)) for text in ('{"a"', ": 1", "}")],
    ],
    "whole, without numbers": [chunk(piece(None, name="add", arguments='{"a": 1}'))],
    "an object for a text": [
        event(
            choices=[
                {"delta": {"tool_calls": [{"function": {"name": "add", "arguments": {"a": 1}}}]}}
            ]
        )
    ],
    "a thought before it": [
        chunk(reasoning_content="Hm."),
        chunk(piece(0, id="x", name="add", arguments='{"a": 1}')),
    ],
}


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_a_call_in_a_stream_is_a_call(play: Play, elsewhere: Views, stream: list[bytes]) -> None:
    finished, sent = answered(play, elsewhere, *stream, chunk(reason="tool_calls"))
    assert finished.reason is FinishReason.STOP
    assert calls_of(finished.text) == [("add", {"a": 1})]
    (tool, _) = sent["tools"]
    assert tool == {
        "type": "function",
        "function": {
            "name": "add", "description": "Adds.", "parameters": json.loads(SUM.parameters),
        },
    }  # fmt: skip


@pytest.mark.parametrize("index", [(0, 1), (0, 0), (None, None)], ids=str)
def test_several_calls_are_told_apart(
    play: Play, elsewhere: Views, index: tuple[int | None, int | None]
) -> None:
    first = piece(index[0], id="x", name="add", arguments='{"a": 1}')
    second = piece(index[1], id="y", name="other", arguments="{}")
    finished, _ = answered(play, elsewhere, chunk(first), chunk(second, reason="tool_calls"))
    assert calls_of(finished.text) == [("add", {"a": 1}), ("other", {})]


def test_calls_of_an_answer_that_is_not_streamed(play: Play, elsewhere: Views) -> None:
    message = {"content": None, "tool_calls": [piece(None, name="add", arguments='{"a": 2}')]}
    body = {"choices": [{"message": message, "finish_reason": "tool_calls"}]}
    server = play(lambda _: page(200, body))
    view = elsewhere()
    view.connect(server.url)
    assert calls_of(view.answer(ChatRequest("a", QUESTION, tools=OFFERED)).text) == [
        ("add", {"a": 2})
    ]


@pytest.mark.parametrize("arguments", ['{"a": ', "[]", "</tool_call>", "[" * 5000])
def test_a_malformed_call_is_text(play: Play, elsewhere: Views, arguments: str) -> None:
    call = piece(0, id="x", name="add", arguments=arguments)
    finished, _ = answered(play, elsewhere, chunk(call, reason="tool_calls"))
    assert calls_of(finished.text) == []
    assert finished.reason is FinishReason.STOP


def test_there_is_an_end_of_calls(play: Play, elsewhere: Views) -> None:
    many = [piece(n, id=f"c{n}", name="other", arguments="{}") for n in range(MOST_CALLS + 50)]
    finished, _ = answered(play, elsewhere, chunk(*many, reason="tool_calls"))
    assert len(calls_of(finished.text)) == MOST_CALLS


def test_without_tools_none_are_told(play: Play, elsewhere: Views) -> None:
    _, sent = answered(play, elsewhere, said("Hi", "stop"), tools=ToolChoice())
    assert "tools" not in sent


def test_results_go_back_as_messages_of_tools() -> None:
    """Whether the answer was written there, or by a model here, which holds calls in its text."""
    written = 'Well.\n<tool_call>\n{"name": "add", "arguments": {"a": 3}}\n</tool_call>'
    messages = (
        *QUESTION,
        Message(Role.ASSISTANT, "", calls=(ToolCall("k", "add", '{"a": 1}'), ToolCall("l", "x"))),
        Message(Role.TOOL, "one", call_id="k"),
        Message(Role.TOOL, "two", call_id="l"),
        Message(Role.ASSISTANT, written, (1, 2, 3)),
        Message(Role.TOOL, "three", call_id="elsewhere"),
    )
    request = ChatRequest("a", messages, tools=ToolChoice((SUM,), parallel=False))
    body: Any = payload(request, Connect("http://127.0.0.1:1/v1", "m", ServerKind.OTHER))
    assert body["parallel_tool_calls"] is False
    told = body["messages"][1:]
    assert [each["role"] for each in told] == ["assistant", "tool", "tool", "assistant", "tool"]
    ids = [call["id"] for each in told for call in each.get("tool_calls", ())]
    assert ids == [each["tool_call_id"] for each in told if each["role"] == "tool"]
    assert len(set(ids)) == 3
    assert told[3]["content"] == "Well."
    assert json.loads(told[3]["tool_calls"][0]["function"]["arguments"]) == {"a": 3}
