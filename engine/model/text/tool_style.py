"""How models are told of tools and write their calls, by what their chat templates show.

Families: Hermes and Qwen (`<tool_call>` around a JSON object), Mistral (`[TOOL_CALLS]` before a
list, or before a name and `[ARGS]`), Llama 3 (a bare JSON object with `parameters`), gpt-oss (a
message in a channel, to a function). A template
without tools gets a prompt of our own, in the first of these forms.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import Enum, auto

from engine.model.text.grammar import COMPACT, closed
from engine.request import Grammar, GrammarKind, Message, Role, Tool, ToolChoice

OPENS, CLOSES = "<tool_call>", "</tool_call>"
MISTRAL, MISTRAL_ARGUMENTS = "[TOOL_CALLS]", "[ARGS]"
_LLAMA = ("<|python_tag|>", '"parameters"')
_CHANNEL = ("<|channel|>", "<|message|>", "to=functions.")
_MOST_CALLS = 8
"""Most calls of one answer that has to call."""

_PROMPT = """You may call functions to help with the user's request. Each line describes one:
<tools>
{tools}
</tools>

To call one, write an object with its name and arguments between tags, and nothing after it:
<tool_call>
{{"name": "the function's name", "arguments": {{"argument": "value"}}}}
</tool_call>

Results come back between <tool_response> tags. Call a function only where it helps; otherwise
answer in words."""


class ToolStyle(Enum):
    """Forms of calls."""

    TAGGED = auto()
    BARE = auto()
    MISTRAL_LIST = auto()
    MISTRAL_NAMED = auto()
    CHANNEL = auto()


def style_of(template: str) -> ToolStyle:
    """Return the form that a template's source shows; the tagged one where it shows none."""
    if MISTRAL in template:
        named = MISTRAL_ARGUMENTS in template
        return ToolStyle.MISTRAL_NAMED if named else ToolStyle.MISTRAL_LIST
    if all(mark in template for mark in _CHANNEL):
        return ToolStyle.CHANNEL
    if OPENS not in template and any(mark in template for mark in _LLAMA):
        return ToolStyle.BARE
    return ToolStyle.TAGGED


def described(
    tool: Tool, hide: Callable[[object], object] = lambda value: value
) -> dict[str, object]:
    """Return a tool as templates take it; `hide` is applied to what others have written."""
    function = {
        "name": hide(tool.name),
        "description": hide(tool.description),
        "parameters": hide(json.loads(tool.parameters)),
    }
    return {"type": "function", "function": function}


def tools_in_words(turns: Sequence[Message], tools: Sequence[Tool]) -> list[Message]:
    """Put a description of the tools behind the system text that a conversation begins with."""
    if not tools:
        return list(turns)
    lines = "\n".join(json.dumps(described(tool), ensure_ascii=False) for tool in tools)
    text = _PROMPT.format(tools=lines)
    if turns and turns[0].role is Role.SYSTEM:
        return [replace(turns[0], text=f"{turns[0].text}\n\n{text}"), *turns[1:]]
    return [Message(Role.SYSTEM, text), *turns]


def calls_grammar(choice: ToolChoice, style: ToolStyle, control: Mapping[str, int]) -> Grammar:
    """Return the grammar of an answer that is calls of these tools.

    Args:
        choice: the tools, and whether there may be several calls.
        style: how the model writes them.
        control: the vocabulary's control tokens, which are no texts.
    """

    def mark(text: str) -> str:
        return f"<[{control[text]}]>" if text in control else json.dumps(text)

    key = "parameters" if style is ToolStyle.BARE else "arguments"
    more = _MOST_CALLS - 1 if choice.parallel else 0
    rules = [f"arguments_{i}: %json {_arguments(tool)}" for i, tool in enumerate(choice.tools)]
    before = '{{"name": {}, "' + key + '": '
    objects = [
        f'{_quoted(before.format(json.dumps(tool.name)))} arguments_{i} "}}"'
        for i, tool in enumerate(choice.tools)
    ]
    rules.append("object: " + "\n  | ".join(objects))
    match style:
        case ToolStyle.TAGGED:
            start = "call" + _repeated('("\\n" call)', more)
            rules.append(f'call: {mark(OPENS)} "\\n" object "\\n" {mark(CLOSES)}')
        case ToolStyle.BARE:
            start = "object"
        case ToolStyle.CHANNEL:  # its end is one of the tokens that end an answer
            heads = [
                f"{mark('<|channel|>')} {_quoted(f'commentary to=functions.{tool.name} ')} "
                f'{mark("<|constrain|>")} "json" {mark("<|message|>")} arguments_{i}'
                for i, tool in enumerate(choice.tools)
            ]
            rules[-1] = "call: " + "\n  | ".join(heads)
            start = "call"
        case ToolStyle.MISTRAL_LIST:
            start = f'{mark(MISTRAL)} "[" object' + _repeated('(", " object)', more) + ' "]"'
        case ToolStyle.MISTRAL_NAMED:
            start = "call" + _repeated("call", more)
            named = [
                f"{_quoted(tool.name)} {mark(MISTRAL_ARGUMENTS)} arguments_{i}"
                for i, tool in enumerate(choice.tools)
            ]
            rules[-1] = f"call: {mark(MISTRAL)} (" + "\n  | ".join(named) + ")"
    return Grammar(GrammarKind.LARK, "\n".join([f"start: {start}", *rules, ""]))


def _repeated(rule: str, most: int) -> str:
    """Return a rule that comes so often at most, or not at all."""
    return f" {rule}{{0,{most}}}" if most else ""


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _arguments(tool: Tool) -> str:
    schema = json.loads(tool.parameters)
    schema = schema if isinstance(schema, dict) else {}
    guidance = {**COMPACT, "lenient": not tool.strict}
    return json.dumps({"type": "object", **closed(schema), "x-guidance": guidance})
