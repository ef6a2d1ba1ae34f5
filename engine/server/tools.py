"""Tools that a request offers, and which of them its answer may or must call."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace

from engine.errors import UserFixable
from engine.model.text.grammar import check_grammar
from engine.model.text.tool_style import ToolStyle, calls_grammar
from engine.request import Tool, ToolChoice
from engine.server.members import Members
from engine.server.structured import refusal

_MOST_TOOLS = 256
_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")
_NO_ARGUMENTS: dict[str, object] = {"type": "object", "properties": {}}


def offered(body: Members) -> ToolChoice:
    """Return the tools of a request in whichever dialect.

    Tools that run at the provider's (web search, a code interpreter) are left out: nobody here
    runs them. So is everything where nothing may be called.

    Raises:
        ApiError: a tool or the choice is malformed, or names a tool that is not offered.
    """
    tools = [tool for tool in map(_tool, body.list("tools")) if tool is not None]
    tools += [_function(each, "parameters") for each in body.list("functions")]
    if len(tools) > _MOST_TOOLS:
        raise body.wrong("tools", f"a list of at most {_MOST_TOOLS} tools")
    if len({tool.name for tool in tools}) < len(tools):
        raise body.wrong("tools", "tools of different names")
    choice = ToolChoice(tuple(tools), parallel=body.flag("parallel_tool_calls") is not False)
    for name in ("tool_choice", "function_call"):
        if body.raw(name) is not None:
            choice = _chosen(body, name, choice)
    if choice.required and not choice.tools:
        raise body.wrong("tool_choice", "auto or none where there are no tools")
    if choice.required:
        try:
            check_grammar(calls_grammar(choice, ToolStyle.BARE, {}))
        except UserFixable as refused:
            raise refusal(refused, "tools") from refused
    return choice


def _tool(each: Members) -> Tool | None:
    """Return a tool in OpenAI's chat's, responses' or Anthropic's form."""
    kind = each.raw("type")
    if kind == "function":
        function = each.inner("function")
        return _function(each if function is None else function, "parameters")
    if each.raw("input_schema") is not None or (kind in (None, "custom") and each.raw("name")):
        return _function(each, "input_schema")
    return None


def _function(function: Members, schema: str) -> Tool:
    name = function.needed_text("name")
    if _NAME.fullmatch(name) is None:
        raise function.wrong("name", "1 to 128 letters, digits and signs")
    parameters = function.raw(schema)
    if parameters is None:
        parameters = _NO_ARGUMENTS
    if not isinstance(parameters, dict):
        raise function.wrong(schema, "a JSON schema")
    strict = bool(function.flag("strict"))
    return Tool(name, function.text("description") or "", json.dumps(parameters), strict)


def _chosen(body: Members, member: str, choice: ToolChoice) -> ToolChoice:
    """Return the choice as a member narrows it."""
    value = body.raw(member)
    if isinstance(value, str):
        kind, holder = value, None
    else:
        holder = Members(value, body.place(member))
        kind = holder.text("type") or "function"
        if holder.flag("disable_parallel_tool_use"):
            choice = replace(choice, parallel=False)
    match kind:
        case "auto":
            return choice
        case "none":
            return ToolChoice()
        case "required" | "any":
            return replace(choice, required=True)
        case "function" | "tool" | "custom" if holder is not None:
            inner = holder.inner("function") or holder
            name = inner.needed_text("name")
            tools = _named(body, member, choice.tools, (name,))
            return replace(choice, tools=tools, required=True, parallel=False)  # one call
        case "allowed_tools" if holder is not None:
            inner = holder.inner("allowed_tools") or holder
            names = [
                (each.inner("function") or each).needed_text("name") for each in inner.list("tools")
            ]
            tools = _named(body, member, choice.tools, names)
            return replace(choice, tools=tools, required=inner.text("mode") == "required")
    raise body.unsupported(member)


def _named(
    body: Members, member: str, tools: Sequence[Tool], names: Sequence[str]
) -> tuple[Tool, ...]:
    known = {tool.name: tool for tool in tools}
    if missing := [name for name in names if name not in known]:
        raise body.wrong(member, f"a tool of this request; {missing[0][:80]} is none")
    return tuple(known[name] for name in names)
