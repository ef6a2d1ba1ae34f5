"""Tools and structured answers, as each dialect asks for them and shows them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from dialect_bodies import BODIES, CHAT, MESSAGES, RESPONSES, TEXT
from household import Household
from played_engine import PlayedEngine, ask

from engine.backend.cpu import native_is_built
from engine.request import Grammar, GrammarKind, ToolChoice
from engine.server.server import Server

PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 8}, "days": {"enum": [1, 2, 3]}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
_FUNCTION = {"name": "get_weather", "description": "Tells the weather.", "parameters": PARAMETERS}
_OTHER = {"name": "get_time", "parameters": {"type": "object", "properties": {}}}
TOOLS: dict[str, list[dict[str, Any]]] = {
    CHAT: [{"type": "function", "function": each} for each in (_FUNCTION, _OTHER)],
    RESPONSES: [{"type": "function", **each} for each in (_FUNCTION, _OTHER)],
    MESSAGES: [
        {"name": each["name"], "input_schema": each["parameters"]} for each in (_FUNCTION, _OTHER)
    ],
}
ARGUMENTS = {"city": "Paris", "days": 2}
CALL = json.dumps({"name": "get_weather", "arguments": ARGUMENTS})
SAID = ("I look", " it up.\n\n", "<tool", "_call>\n", CALL[:20], CALL[20:], "\n</tool_call>")
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def schema_format(schema: Any, **more: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "a", "schema": schema} | more}


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name} | more}


def events(body: bytes) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in body.decode().splitlines()]
    return [json.loads(line) for line in lines if line.startswith("{")]


def reply(path: str, said: tuple[str, ...] = SAID, **members: Any) -> Any:
    engine = PlayedEngine(tokens=said)
    answer = ask(engine.application(), path, BODIES[path] | {"tools": TOOLS[path]} | members)
    assert answer.status == 200, answer.body
    return events(answer.body) if members.get("stream") else answer.json


def choice(path: str, **members: Any) -> ToolChoice:
    engine = PlayedEngine()
    body = BODIES[path] | {"tools": TOOLS[path]} | members
    answer = ask(engine.application(), path, body)
    assert answer.status == 200, answer.body
    found: ToolChoice = engine.asked.request.tools
    return found


def test_a_call_in_chat() -> None:
    (only,) = reply(CHAT)["choices"]
    assert only["finish_reason"] == "tool_calls"
    assert only["message"]["content"].strip() == "I look it up."
    (call,) = only["message"]["tool_calls"]
    assert (call["type"], call["function"]["name"]) == ("function", "get_weather")
    assert json.loads(call["function"]["arguments"]) == ARGUMENTS
    (bare,) = reply(CHAT, (CALL,))["choices"]
    assert bare["message"]["content"] is None


def test_a_call_in_a_stream_of_chat() -> None:
    deltas = [each["choices"][0] for each in reply(CHAT, stream=True) if each["choices"]]
    calls = [part for each in deltas for part in each["delta"].get("tool_calls", ())]
    assert calls[0]["index"] == 0
    assert calls[0]["function"] == {"name": "get_weather", "arguments": ""}
    assert json.loads("".join(part["function"]["arguments"] for part in calls)) == ARGUMENTS
    assert deltas[-1]["finish_reason"] == "tool_calls"
    assert "".join(each["delta"].get("content") or "" for each in deltas).strip() == "I look it up."


def test_a_call_in_responses() -> None:
    text, call = reply(RESPONSES)["output"]
    assert text["type"] == "message"
    assert (call["type"], call["name"]) == ("function_call", "get_weather")
    assert json.loads(call["arguments"]) == ARGUMENTS
    told = reply(RESPONSES, stream=True)
    kinds = [each["type"] for each in told]
    start = kinds.index("response.function_call_arguments.delta")
    assert kinds[start - 1 : start + 3] == [
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
    ]
    assert told[start + 2]["item"]["call_id"] == told[start - 1]["item"]["call_id"]
    assert [each["sequence_number"] for each in told] == list(range(len(told)))
    done = told[-1]["response"]["output"]
    assert [each["type"] for each in done] == ["message", "function_call"]


def test_a_call_in_messages() -> None:
    told = reply(MESSAGES)
    assert told["stop_reason"] == "tool_use"
    text, call = told["content"]
    assert text["type"] == "text"
    assert (call["type"], call["name"], call["input"]) == ("tool_use", "get_weather", ARGUMENTS)
    streamed = reply(MESSAGES, stream=True)
    blocks = [each for each in streamed if each["type"] == "content_block_start"]
    assert [each["content_block"]["type"] for each in blocks] == ["text", "tool_use"]
    assert [each["index"] for each in blocks] == [0, 1]
    assert blocks[1]["content_block"]["input"] == {}
    pieces = [each["delta"] for each in streamed if each["type"] == "content_block_delta"]
    said = "".join(piece.get("partial_json", "") for piece in pieces)
    assert json.loads(said) == ARGUMENTS
    stops = [each["index"] for each in streamed if each["type"] == "content_block_stop"]
    assert stops == [0, 1]
    assert streamed[-2]["delta"]["stop_reason"] == "tool_use"


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
def test_several_calls_unless_only_one_is_wanted(path: str) -> None:
    twice = (f"<tool_call>{CALL}</tool_call>\n<tool_call>{CALL}</tool_call>",)

    def count(**members: Any) -> int:
        return json.dumps(reply(path, twice, **members)).count('"name": "get_weather"') - offered

    offered = 1 if path == RESPONSES else 0  # a response names the tools that were offered
    one: dict[str, Any] = {"parallel_tool_calls": False}
    if path == MESSAGES:
        one = {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}
    assert (count(), count(**one)) == (2, 1)


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
def test_a_malformed_call_is_text(path: str) -> None:
    broken = ('<tool_call>{"name": "get_weather", "arg', "uments</tool_call>")
    assert "uments</tool_call>" in json.dumps(reply(path, broken))
    unknown = ('{"name": "launch", "arguments": {}}',)
    assert "launch" in json.dumps(reply(path, unknown))


@pytest.mark.parametrize(
    ("path", "wish", "names", "required"),
    [
        (CHAT, "auto", ["get_weather", "get_time"], False),
        (CHAT, "none", [], False),
        (CHAT, "required", ["get_weather", "get_time"], True),
        (CHAT, {"type": "function", "function": {"name": "get_time"}}, ["get_time"], True),
        (
            CHAT,
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "auto",
                    "tools": [{"type": "function", "function": {"name": "get_time"}}],
                },
            },
            ["get_time"],
            False,
        ),
        (RESPONSES, {"type": "function", "name": "get_time"}, ["get_time"], True),
        (MESSAGES, {"type": "any"}, ["get_weather", "get_time"], True),
        (MESSAGES, {"type": "tool", "name": "get_time"}, ["get_time"], True),
        (MESSAGES, {"type": "none"}, [], False),
    ],
)
def test_choices_are_read(path: str, wish: Any, names: list[str], required: bool) -> None:
    found = choice(path, tool_choice=wish)
    assert [tool.name for tool in found.tools] == names
    assert found.required is required


def test_tools_that_others_run_are_left_out() -> None:
    tools = [*TOOLS[RESPONSES], {"type": "web_search"}, {"type": "code_interpreter"}]
    assert len(choice(RESPONSES, tools=tools).tools) == 2


FORMAT: dict[str, Any] = {"type": "json_schema", "schema": SCHEMA}
_ANY = Grammar(GrammarKind.JSON_SCHEMA, '{"type": "object"}')
_OBJECT = Grammar(GrammarKind.JSON_SCHEMA, json.dumps(SCHEMA))


@pytest.mark.parametrize(
    ("path", "members", "wanted"),
    [
        (CHAT, {"response_format": schema_format(SCHEMA, strict=True)}, _OBJECT),
        (CHAT, {"response_format": {"type": "json_object", "schema": SCHEMA}}, _OBJECT),
        (CHAT, {"response_format": {"type": "json_object"}}, _ANY),
        (CHAT, {"guided_json": SCHEMA}, _OBJECT),
        (CHAT, {"structured_outputs": {"regex": "a+"}}, Grammar(GrammarKind.REGEX, "a+")),
        (CHAT, {"guided_choice": ["a.", "b"]}, Grammar(GrammarKind.REGEX, r"a\.|b")),
        (TEXT, {"grammar": 'root ::= "a"'}, Grammar(GrammarKind.GBNF, 'root ::= "a"')),
        (TEXT, {"grammar": 'start: "a"'}, Grammar(GrammarKind.LARK, 'start: "a"')),
        (TEXT, {"json_schema": SCHEMA}, _OBJECT),
        (RESPONSES, {"text": {"format": FORMAT | {"name": "a"}}}, _OBJECT),
        (MESSAGES, {"output_config": {"format": FORMAT}}, _OBJECT),
        (MESSAGES, {"output_format": FORMAT}, _OBJECT),
    ],
    ids=str,
)  # fmt: skip
def test_grammars_are_read(path: str, members: Any, wanted: Grammar) -> None:
    engine = PlayedEngine()
    answer = ask(engine.application(), path, BODIES[path] | members)
    assert answer.status == 200, answer.body
    assert engine.asked.request.grammar == wanted


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"response_format": schema_format({"not": {}})}, "not"),
        ({"response_format": {"type": "json_schema"}}, "JSON schema"),
        ({"response_format": schema_format({"type": 7})}, "JSON schema"),
        ({"guided_regex": "("}, "grammar"),
        ({"grammar": "root ::= nothing"}, "grammar"),
        ({"guided_json": SCHEMA, "guided_regex": "a"}, "one grammar only"),
        ({"tools": TOOLS[CHAT], "tool_choice": tool("x")}, "x is none"),
        ({"tools": TOOLS[CHAT] * 2}, "different names"),
        ({"tools": [tool("a b")]}, "name"),
        ({"tools": [tool("a", parameters=3)]}, "JSON schema"),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_followed_is_refused_by_name(members: Any, says: str) -> None:
    answer = ask(PlayedEngine().application(), CHAT, BODIES[CHAT] | members)
    assert answer.status == 400
    assert says in answer.json["error"]["message"]


# -- with a real engine ------------------------------------------------------------------------


@pytest.fixture
def server(household: Household) -> Iterator[Server]:
    if not native_is_built():
        pytest.skip("the native library is not built")
    with closing(household.server(token=None)) as server:
        yield server


def post(server: Server, path: str, **members: Any) -> Any:
    import httpx2

    body = BODIES[path] | {"max_tokens": 200, "seed": 3} | members
    answer = httpx2.post(server.url.removesuffix("/v1") + path, json=body, timeout=240)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_model_that_must_call_calls(server: Server) -> None:
    """Even one that has never seen a tool."""
    told = post(server, CHAT, tools=TOOLS[CHAT], tool_choice="required", temperature=1)
    (only,) = told["choices"]
    assert only["finish_reason"] == "tool_calls"
    for call in only["message"]["tool_calls"]:
        arguments = json.loads(call["function"]["arguments"])
        if call["function"]["name"] == "get_weather":
            assert set(arguments) == {"city", "days"}
    named = {"type": "tool", "name": "get_weather", "disable_parallel_tool_use": True}
    (block,) = post(server, MESSAGES, tools=TOOLS[MESSAGES], tool_choice=named)["content"]
    assert block["name"] == "get_weather"
    assert block["input"]["days"] in (1, 2, 3)


def test_a_schema_is_followed(server: Server) -> None:
    told = post(server, CHAT, response_format=schema_format(PARAMETERS), temperature=1.2)
    found = json.loads(told["choices"][0]["message"]["content"])
    assert set(found) == {"city", "days"}
    form = {"format": {"type": "json_schema", "name": "w", "schema": PARAMETERS}}
    (message,) = post(server, RESPONSES, text=form, max_output_tokens=200)["output"]
    assert set(json.loads(message["content"][0]["text"])) == {"city", "days"}
    choices = post(server, TEXT, prompt="The answer is", guided_choice=["yes", "no"])["choices"]
    assert choices[0]["text"] in ("yes", "no")


WHERE_IT_HAS_TO = {
    CHAT: {"tool_choice": "required"},
    RESPONSES: {"tool_choice": "required"},
    MESSAGES: {"tool_choice": {"type": "any"}},
}
FORMS = {
    "tagged": f"<tool_call>\n{CALL}\n</tool_call>",
    "bare": CALL.replace('"arguments"', '"parameters"'),
    "list": f"[TOOL_CALLS][{CALL}]",
    "named": f"[TOOL_CALLS]get_weather[ARGS]{json.dumps(ARGUMENTS)}",
    "channel": "<|start|>assistant<|channel|>commentary to=functions.get_weather "
    f"<|constrain|>json<|message|>{json.dumps(ARGUMENTS)}",
}


def pieces_of_arguments(path: str, told: list[Any]) -> list[str]:
    match path:
        case "/v1/chat/completions":
            calls = [
                call
                for each in told
                for choice in each["choices"]
                for call in choice["delta"].get("tool_calls", ())
            ]
            return [call["function"]["arguments"] for call in calls]
        case "/v1/messages":
            deltas = [each["delta"] for each in told if each["type"] == "content_block_delta"]
            return [delta["partial_json"] for delta in deltas]
    return [e["delta"] for e in told if e["type"] == "response.function_call_arguments.delta"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("path", WHERE_IT_HAS_TO)
def test_arguments_come_as_they_are_written_where_there_has_to_be_a_call(
    path: str, form: str
) -> None:
    text = FORMS[form]
    said = tuple(text[at : at + 5] for at in range(0, len(text), 5))
    told = reply(path, said, stream=True, **WHERE_IT_HAS_TO[path])
    pieces = pieces_of_arguments(path, told)
    assert json.loads("".join(pieces)) == ARGUMENTS
    assert len(pieces) > 4
    whole = reply(path, said, **WHERE_IT_HAS_TO[path])
    assert "get_weather" in json.dumps(whole)
    assert "tool_call>" not in json.dumps(whole)


@pytest.mark.parametrize("path", WHERE_IT_HAS_TO)
def test_a_call_that_is_cut_short_is_told_as_far_as_it_came(path: str) -> None:
    said = ('<tool_call>\n{"name": "get_weather", ', '"arguments": {"city": "Pa', 'r"')
    told = reply(path, said, stream=True, **WHERE_IT_HAS_TO[path])
    assert "".join(pieces_of_arguments(path, told)) == '{"city": "Par"'
    assert "get_weather" in json.dumps(reply(path, said, **WHERE_IT_HAS_TO[path]))
