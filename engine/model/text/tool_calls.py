"""Tool calls in an answer, read while it is written.

A model writes them in its family's form: between `<tool_call>` tags, as JSON or as Qwen3-Coder's
XML; behind Mistral's `[TOOL_CALLS]` or Llama's `<|python_tag|>`; in a channel of gpt-oss's; or as
a bare JSON object, which counts where it begins a line and names a known tool. Whatever turns out
to be no call is text.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.request import Tool, ToolCall

MOST_HELD = 256 * 1024
"""Characters of a call that does not end; more is text."""
_CHANNELS = ("<|channel|>commentary", "<|start|>assistant")
OPENINGS = ("<tool_call>", "[TOOL_CALLS]", "<|python_tag|>", "<function=", *_CHANNELS)
_FENCES = ("```json\n", "```\n")
_BEGINS = re.compile(
    "|".join(map(re.escape, OPENINGS)) + r"|(?:(?<=\n)|\A)[ \t]*(?:```(?:json)?\n\s*)?(?=[{\[])"
)
_KEYS = ("name", "type", "function", "id", "parameters", "arguments")
_FIRST_KEY = re.compile(r'\[?\s*\{?\{\s*"(?:' + "|".join(_KEYS) + r')"\s*:')
_BEGUN_KEY = re.compile(r'\[?\s*(?:\{\{?\s*("\w*"?\s*)?)?\Z')
_TAIL = re.compile(r"(?:(?<=\n)|\A)[ \t]*(?:`{0,3}|```j(?:s(?:on?)?)?|```(?:json)?\n\s*)\Z")
"""The end of a text behind which a bare call may begin."""
_FUNCTION = re.compile(r"\s*<function=([^>\s]+)>\s*(.*?)\s*</function>", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^>\s]+)>\n?(.*?)\n?</parameter>", re.DOTALL)
_NAMED = re.compile(r"\s*([\w.-]+)\s*(?:\[CALL_ID\]\w+\s*)?(?:\[ARGS\])?\s*(?=\{)")
_HEADER = re.compile(
    r"(?:<\|start\|>assistant(?: to=functions\.([\w.-]+))?)?<\|channel\|>\w+"
    r"(?: to=functions\.([\w.-]+))?\s*(?:<\|constrain\|>)?\w*<\|message\|>\s*"
)
_LONGEST_HEADER = 300
_ENDS_CALL = "<|call|>"
_CLOSING = frozenset("}]>`")


@dataclass(frozen=True, slots=True)
class _Read:
    """Calls at the beginning of a text, and where it goes on behind them."""

    calls: tuple[ToolCall, ...]
    end: int


class _Unfinished(Exception):
    """More text may make it a call."""


class ToolCallParser:
    """Splits what an answer says into text and calls.

    Args:
        tools: those that may be called; with none all is text.
    """

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._held = ""
        self._line_begins = True  # whether the held text stands where a line begins
        self._called = False  # whether a call was the last thing; blanks behind it are nothing

    def feed(self, text: str) -> Iterator[str | ToolCall]:
        """Yield the texts and calls that the next stretch completes."""
        if not self._tools:
            yield text
            return
        waits = self._held and _BEGINS.match(self._held) and len(self._held) < MOST_HELD
        self._held += text
        if waits and self._is_call_to_be() and _CLOSING.isdisjoint(text):
            return
        yield from self._split(more=True)

    def finish(self) -> Iterator[str | ToolCall]:
        """Yield what is held back: no more text comes."""
        yield from self._split(more=False)

    def _is_call_to_be(self) -> bool:
        """Tell whether the held text is past the point at which it could turn out to be none."""
        return self._held.startswith(OPENINGS) or _FIRST_KEY.match(_bare(self._held)) is not None

    def _split(self, *, more: bool) -> Iterator[str | ToolCall]:
        while self._held:
            found = self._next_beginning()
            if found is None:
                keep = _possible_beginning(self._held, at_line=self._line_begins) if more else 0
                yield from self._text(len(self._held) - keep)
                return
            yield from self._text(found)
            try:
                read = self._read(more=more and len(self._held) < MOST_HELD)
            except _Unfinished:
                return
            if read is None:
                yield from self._text(_length_of_beginning(self._held))
                continue
            self._held = self._held[read.end :]
            self._called, self._line_begins = True, True
            yield from read.calls

    def _next_beginning(self) -> int | None:
        """Return where the next call may begin."""
        for match in _BEGINS.finditer(self._held):
            in_line = match.start() == 0 and not self._line_begins
            if in_line and not match[0].startswith(OPENINGS):
                continue
            return match.start()
        return None

    def _text(self, count: int) -> Iterator[str]:
        """Yield so much of the held text; not the blanks between calls."""
        text, self._held = self._held[:count], self._held[count:]
        if self._called:
            text = text.lstrip()
        if text:
            self._called = False
            self._line_begins = text.endswith("\n")
            yield text

    def _read(self, *, more: bool) -> _Read | None:
        """Return the calls with which the held text begins; None: it begins with none.

        Raises:
            _Unfinished: it may begin with one once more of it is there.
        """
        opening = next((each for each in OPENINGS if self._held.startswith(each)), "")
        inner = self._held[len(opening) :]
        read: _Read | None
        match opening:
            case "<tool_call>":
                read = self._tagged(inner, more=more)
            case "[TOOL_CALLS]":
                read = self._mistral(inner, more=more)
            case "<function=":
                opening, inner = "", self._held
                read = self._xml(inner, more=more)
            case "<|channel|>commentary" | "<|start|>assistant":
                return self._in_channel(more=more)
            case "":
                return self._bare(more=more)
            case _:
                read = self._json(inner, more=more)
        return None if read is None else _Read(read.calls, read.end + len(opening))

    def _tagged(self, text: str, *, more: bool) -> _Read | None:
        begins = text.lstrip()
        if not begins or "<function=".startswith(begins[:10]):
            read = self._xml(text, more=more)
        else:
            read = self._json(text, more=more)
        if read is None:
            return None
        closing = text[read.end :].lstrip()
        if closing.startswith("</tool_call>"):
            return _Read(read.calls, len(text) - len(closing) + len("</tool_call>"))
        if more and "</tool_call>".startswith(closing):
            raise _Unfinished
        return read

    def _xml(self, text: str, *, more: bool) -> _Read | None:
        """Read `<function=name>`, with `<parameter=name>` elements or a JSON object within."""
        match = _FUNCTION.match(text)
        if match is None:
            if more:
                raise _Unfinished
            return None
        name, body = match[1], match[2]
        if name not in self._tools:
            return None
        arguments: dict[str, object] | None
        if body.startswith("{"):
            arguments = _object(body)
        else:
            schema = json.loads(self._tools[name].parameters)
            known = schema.get("properties", {}) if isinstance(schema, dict) else {}
            pairs = _PARAMETER.findall(body)
            arguments = {key: _value(value, known.get(key)) for key, value in pairs}
        if arguments is None:
            return None
        return _Read((_call(name, arguments),), match.end())

    def _mistral(self, text: str, *, more: bool) -> _Read | None:
        if (match := _NAMED.match(text)) is None:
            if more and not text.lstrip().startswith(("[", "{")):
                raise _Unfinished
            return self._json(text, more=more)
        end = _end_of_json(text, match.end(), more=more)
        arguments = None if end is None else _object(text[match.end() : end])
        if arguments is None or match[1] not in self._tools:
            return None
        return _Read((_call(match[1], arguments),), end or 0)

    def _in_channel(self, *, more: bool) -> _Read | None:
        """Read a message of gpt-oss's to a function: its name in the header, then its arguments."""
        text = self._held
        if (match := _HEADER.match(text)) is None:
            if more and len(text) < _LONGEST_HEADER and "<|message|>" not in text:
                raise _Unfinished
            return None
        name = match[1] or match[2]
        if more and name in self._tools and match.end() == len(text):
            raise _Unfinished
        end = _end_of_json(text, match.end(), more=more) if name in self._tools else None
        arguments = None if end is None else _object(text[match.end() : end])
        if arguments is None or end is None:
            return None
        if more and len(text) - end < len(_ENDS_CALL) and _ENDS_CALL.startswith(text[end:]):
            raise _Unfinished
        end += len(_ENDS_CALL) if text.startswith(_ENDS_CALL, end) else 0
        return _Read((_call(name, arguments),), end)

    def _bare(self, *, more: bool) -> _Read | None:
        body = _bare(self._held)
        start = len(self._held) - len(body)
        if _FIRST_KEY.match(body) is None:
            begun = any(each.startswith(self._held) for each in OPENINGS)
            if more and (begun or _may_begin(body)):
                raise _Unfinished
            return None
        read = self._json(body, more=more)
        if read is None:
            return None
        end = start + read.end
        if "```" in self._held[:start]:
            rest = self._held[end:].lstrip()
            if more and len(rest) < len("```"):
                raise _Unfinished
            end = len(self._held) - len(rest) + (3 if rest.startswith("```") else 0)
        return _Read(read.calls, end)

    def _json(self, text: str, *, more: bool) -> _Read | None:
        """Read an object that names a tool, or a list of such."""
        start = len(text) - len(text.lstrip())
        if start == len(text):
            if more:
                raise _Unfinished
            return None
        # Templates of Qwen2.5 tell the model of doubled braces, and some answers have them.
        doubled = text.startswith("{{", start)
        start += doubled
        end = _end_of_json(text, start, more=more)
        if end is None:
            return None
        if doubled and more and end == len(text):
            raise _Unfinished
        try:
            value = json.loads(text[start:end], strict=False)
        except (ValueError, RecursionError):
            return None
        found = [self._named(each) for each in (value if isinstance(value, list) else [value])]
        calls = [call for call in found if call is not None]
        end += doubled and text.startswith("}", end)
        return _Read(tuple(calls), end) if calls and len(calls) == len(found) else None

    def _named(self, value: object) -> ToolCall | None:
        """Return the call that an object is, in any of the usual forms."""
        if not isinstance(value, dict):
            return None
        inner = value.get("function")
        said = inner if isinstance(inner, dict) else value
        name = inner if isinstance(inner, str) else said.get("name")
        keys = ("arguments", "parameters")
        arguments: object = next((said[key] for key in keys if key in said), {})
        if isinstance(arguments, str):
            arguments = _object(arguments)
        if not isinstance(name, str) or name not in self._tools or not isinstance(arguments, dict):
            return None
        if _repeats(arguments, self._tools[name]):
            return None
        return _call(name, arguments)


def _repeats(arguments: dict[str, object], tool: Tool) -> bool:
    """Tell whether a model has only repeated what it was told of a tool, as small ones do."""
    schema = json.loads(tool.parameters)
    known = schema.get("properties") if isinstance(schema, dict) else None
    asks = known if isinstance(known, dict) else {}
    return (
        arguments.get("type") == "object"
        and "properties" in arguments
        and ("properties" not in asks)
    )


def _call(name: str, arguments: dict[str, object]) -> ToolCall:
    return ToolCall(f"call_{secrets.token_hex(8)}", name, json.dumps(arguments, ensure_ascii=False))


def _object(text: str) -> dict[str, object] | None:
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _value(text: str, schema: object) -> object:
    """Return an argument that stands as text: a text where its schema says so, else JSON."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    if kind == "string":
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _end_of_json(text: str, start: int, *, more: bool) -> int | None:
    """Return where the object or list at `start` ends; None: it is none, or never ends.

    Raises:
        _Unfinished: its end is to come.
    """
    if text[start : start + 1] not in ("{", "["):
        return None
    depth, quoted, escaped = 0, False, False
    for place in range(start, len(text)):
        character = text[place]
        if quoted:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                quoted = False
        elif character == '"':
            quoted = True
        elif character in "{[":
            depth += 1
        elif character in "}]":
            depth -= 1
            if not depth:
                return place + 1
    if more:
        raise _Unfinished
    return None


def _bare(text: str) -> str:
    """Return a text without the beginning of a code fence before its JSON."""
    stripped = text.lstrip(" \t")
    for fence in _FENCES:
        if stripped.startswith(fence):
            return stripped.removeprefix(fence).lstrip()
    return stripped


def _length_of_beginning(text: str) -> int:
    """Return how much of a text that begins no call is text at once: at least one character."""
    match = _BEGINS.match(text)
    return max(len(match[0]) if match else 0, 1)


def _possible_beginning(text: str, *, at_line: bool) -> int:
    """Return how many characters at the end may become the beginning of a call."""
    match = _TAIL.search(text, 0 if at_line else 1)
    tail = 0 if match is None else len(match[0])
    for length in range(min(len(text), max(map(len, OPENINGS)) - 1), tail, -1):
        if any(each.startswith(text[-length:]) for each in OPENINGS):
            return length
    return tail


def _may_begin(body: str) -> bool:
    """Tell whether a text may become the first member of a call."""
    match = _BEGUN_KEY.match(body)
    if match is None:
        return False
    key = (match[1] or "").rstrip()
    return any(f'"{each}"'.startswith(key) for each in _KEYS)
