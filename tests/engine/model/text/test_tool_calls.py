"""Tool calls read out of answers: every family's form, however the text is cut into pieces."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from engine.model.text.chat_template import ChatTemplate, TemplateChoices
from engine.model.text.grammar import check_grammar
from engine.model.text.template_sandbox import SandboxedTemplate
from engine.model.text.tokenizer import Tokenizer
from engine.model.text.tool_calls import ToolCallParser
from engine.model.text.tool_style import ToolStyle, calls_grammar, style_of
from engine.request import Message, Role, Tool, ToolCall, ToolChoice

WEATHER = Tool(
    "get_weather",
    "Tells the weather in a city.",
    json.dumps(
        {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        }
    ),
)
ADD = Tool("add", "Adds numbers.", '{"type": "object", "properties": {"a": {}, "b": {}}}')
TOOLS = (WEATHER, ADD)
PARIS = {"city": "Paris", "days": 2}
BARE = json.dumps({"name": "get_weather", "arguments": PARIS})
LLAMA = json.dumps({"name": "get_weather", "parameters": PARIS})
SUM = json.dumps({"name": "add", "arguments": {"a": 1, "b": "}"}})

CALLS: dict[str, tuple[str, list[str]]] = {
    "hermes": (f"<tool_call>\n{BARE}\n</tool_call>", ["get_weather"]),
    "two": (
        f"<tool_call>\n{BARE}\n</tool_call>\n<tool_call>\n{SUM}\n</tool_call>",
        ["get_weather", "add"],
    ),
    "without an end": (f"<tool_call>\n{BARE}", ["get_weather"]),
    "mistral": (f"[TOOL_CALLS][{BARE}, {SUM}]", ["get_weather", "add"]),
    "mistral, named": (f"[TOOL_CALLS]get_weather[ARGS]{json.dumps(PARIS)}", ["get_weather"]),
    "llama": (LLAMA, ["get_weather"]),
    "llama, tagged": (f"<|python_tag|>{LLAMA}", ["get_weather"]),
    "function": (f"<function=get_weather>{json.dumps(PARIS)}</function>", ["get_weather"]),
    "coder": (
        """<tool_call>
<function=get_weather>
<parameter=city>
Paris
</parameter>
<parameter=days>
2
</parameter>
</function>
</tool_call>""",
        ["get_weather"],
    ),
    "channel": (
        "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"
        + json.dumps(PARIS)
        + "<|call|>",
        ["get_weather"],
    ),
    "channel after a thought": (
        "<|start|>assistant to=functions.get_weather<|channel|>commentary json<|message|>"
        + json.dumps(PARIS),
        ["get_weather"],
    ),
    "bare": (BARE, ["get_weather"]),
    "doubled": (f"{{{BARE}}}", ["get_weather"]),
    "doubled tags": (f"<tool_call>\n{{{BARE}}}\n</tool_call>", ["get_weather"]),
    "list": (f"[{BARE}, {SUM}]", ["get_weather", "add"]),
    "fenced": (f"```json\n{BARE}\n```", ["get_weather"]),
    "openai": (
        json.dumps({"type": "function", "function": {"name": "add", "arguments": "{}"}}),
        ["add"],
    ),
}

TEXTS = (
    "The sky is blue.\n\nIt is {not} a call: [1], `{}`.",
    '{"name": "unknown_tool", "arguments": {}}',
    '{"city": "Paris"}',
    "<tool_call>\nnothing of the kind\n</tool_call>",
    '<tool_call>{"name": "get_weather", "arguments": [1]}</tool_call>',
    '<tool_call>{"name": "get_weather", "arguments": {"a": }}</tool_call>',
    '{"name": "get_weather", "argu',
    # what a model was told, repeated
    f'{{"name": "get_weather", "description": "x", "parameters": {WEATHER.parameters}}}',
    f'{{"type": "function", "function": {{"name": "add", "parameters": {ADD.parameters}}}}}',
    '```json\n{"a": 1}\n```\nand ```python\nprint({})\n```',
    "<function=other>{}</function>",
    "[TOOL_CALLS] and then words",
    "<|channel|>commentary to=functions.other <|constrain|>json<|message|>{}",
    "<|channel|>commentary<|message|>I will look it up.",
    "<|start|>assistant<|channel|>commentary to=functions.add<|message|>nothing",
    "a < b, <tool, [TOOL_",
    "{" * 3000,
    "[" * 3000,
)  # fmt: skip


def pieces(text: str, rng: random.Random) -> list[str]:
    cuts = sorted(rng.sample(range(len(text) + 1), min(len(text), rng.randint(0, 12))))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def read(
    text: str, rng: random.Random, tools: tuple[Tool, ...] = TOOLS
) -> tuple[str, list[ToolCall]]:
    parser = ToolCallParser(tools)
    found = [each for piece in pieces(text, rng) for each in parser.feed(piece)]
    found += parser.finish()
    said = "".join(each for each in found if isinstance(each, str))
    return said, [each for each in found if isinstance(each, ToolCall)]


@pytest.mark.parametrize("kind", CALLS)
@pytest.mark.parametrize("before", ["", "I look it up.\n\n"])
def test_calls_are_read(kind: str, before: str) -> None:
    text, names = CALLS[kind]
    for seed in range(40):
        said, calls = read(before + text, random.Random(seed))
        assert [call.name for call in calls] == names
        assert said.strip() == before.strip()
        for call in calls:
            arguments = json.loads(call.arguments)
            assert arguments == (PARIS if call.name == "get_weather" else arguments)
        assert len({call.id for call in calls}) == len(calls)


@pytest.mark.parametrize("text", TEXTS)
def test_everything_else_is_text(text: str) -> None:
    for seed in range(40):
        assert read(text, random.Random(seed)) == (text, [])


def test_without_tools_nothing_is_held_back() -> None:
    parser = ToolCallParser(())
    assert list(parser.feed("<tool_call>")) == ["<tool_call>"]


def test_text_is_not_held_back_longer_than_it_takes() -> None:
    parser = ToolCallParser(TOOLS)
    assert list(parser.feed("The answer is ")) == ["The answer is "]
    assert list(parser.feed("42. <")) == ["42. "]
    assert list(parser.feed("b>\n")) == ["<b>\n"]
    assert "".join(map(str, parser.feed('{"ci'))) == '{"ci'


def test_random_texts_are_never_lost() -> None:
    rng = random.Random(4)
    bits = [
        "<tool_call>", "</tool_call>", "{", "}", '"name"', ":", '"get_weather"', ",", '"arguments"',
        "[", "]", "\n", "```json\n", "```", " ", "word", "[TOOL_CALLS]", "[ARGS]", "<function=add>",
        "</function>", "\\", '"', "<|python_tag|>", "<parameter=a>", "</parameter>",
    ]  # fmt: skip
    for _ in range(3000):
        text = "".join(rng.choices(bits, k=rng.randint(1, 25)))
        said, calls = read(text, rng)
        if not calls:
            assert said == text


FAMILIES = {
    "qwen2.5": ToolStyle.TAGGED, "qwen3": ToolStyle.TAGGED, "smollm2": ToolStyle.TAGGED,
    "mistral-nemo": ToolStyle.MISTRAL_LIST, "gemma-3": ToolStyle.TAGGED,
}  # fmt: skip
_TEMPLATES = Path(__file__).parents[1] / "templates"


@pytest.mark.parametrize("family", FAMILIES)
def test_the_style_is_the_familys(family: str) -> None:
    source = (_TEMPLATES / f"{family}.jinja").read_text("utf-8")
    assert style_of(source) is FAMILIES[family]


@pytest.mark.parametrize("style", ToolStyle)
def test_a_call_that_has_to_be_is_one_that_is_read(style: ToolStyle) -> None:
    grammar = calls_grammar(ToolChoice(TOOLS, required=True), style, {})
    check_grammar(grammar)
    source = "<|channel|>commentary to=functions.x <|constrain|>json<|message|>"
    assert style_of(source) is ToolStyle.CHANNEL


@pytest.mark.parametrize("path", sorted(_TEMPLATES.glob("*.jinja")), ids=lambda path: path.stem)
def test_every_template_tells_the_model_of_the_tools(path: Path) -> None:
    """Where it has no place for them, they stand in the system text."""
    from folder_models import FOLDER_TARGET

    names = {"bos_token": "<s>", "eos_token": "</s>"}
    template = ChatTemplate(SandboxedTemplate(path.read_text("utf-8"), names))
    tokenizer = Tokenizer.open(FOLDER_TARGET)
    turns = (
        Message(Role.USER, "What is the weather in Paris?"),
        Message(
            Role.ASSISTANT, "", calls=(ToolCall("abcdefghi", "get_weather", '{"city": "Paris"}'),)
        ),
        Message(Role.TOOL, "18 degrees", call_id="abcdefghi"),
        Message(Role.USER, "And tomorrow?"),
    )
    for messages in (turns[:1], turns):
        prompt = template.prompt(
            messages, tokenizer, continue_answer=False, choices=TemplateChoices(tools=TOOLS)
        )
        text = tokenizer.decode(prompt.ids)
        assert "get_weather" in text
        assert "Tells the weather in a city." in text
    assert "18 degrees" in text
