"""Format of records' fields in SQLite: JSON for people to read, words for what is much."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from app.history.records import ChatSetup, TokenMarks
from engine.events import AnswerStats
from engine.request import SamplingParams, ToolCall

_LARGEST = 2**53
_MOST_TOOLS = 1_000


def clean_text(text: str) -> str:
    """The text as UTF-8 can hold it: split surrogate pairs joined, lone ones replaced by U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def pack_ids(ids: Sequence[int]) -> bytes:
    """Token ids as little-endian 32-bit words, so that blobs can simply be joined."""
    return struct.pack(f"<{len(ids)}I", *ids)


def unpack_ids(blob: bytes | None) -> tuple[int, ...] | None:
    """The inverse of `pack_ids`; None for no blob, or for one that is not whole words."""
    if blob is None or len(blob) % 4:
        return None
    return struct.unpack(f"<{len(blob) // 4}I", blob)


def unpack_seed(stored: int) -> int:
    """A seed of version 1, where SQLite's signed integers held those from 2^63 on as negative."""
    return stored % 2**64


def pack_stats(stats: AnswerStats | None) -> str | None:
    """Statistics as JSON, readable by whoever opens the file with another tool."""
    return None if stats is None else json.dumps(asdict(stats))


def unpack_stats(text: str | None) -> AnswerStats | None:
    """Statistics from JSON; None when a field is missing or odd, unknown fields are dropped."""
    values = _known(text, AnswerStats)
    kinds = {field.name: str(field.type) for field in fields(AnswerStats)}
    if not all(_fits(value, kinds[name]) for name, value in values.items()):
        return None
    try:
        return AnswerStats(**values)
    except TypeError:
        return None


def _fits(value: object, kind: str) -> bool:
    if value is None:
        return kind.endswith("None")
    if kind.startswith("tuple"):
        return isinstance(value, tuple) and all(type(each) is int for each in value)
    if kind.startswith("str"):
        return isinstance(value, str)
    return type(value) is int or (type(value) is float and kind.startswith("float"))


def pack_sampling(sampling: SamplingParams) -> str:
    """Sampling parameters as JSON."""
    return json.dumps(asdict(sampling))


def unpack_sampling(text: str | None) -> SamplingParams:
    """Sampling parameters from JSON; what is missing or makes no sense is left at its default."""
    values = _sensible(_known(text, SamplingParams), SamplingParams())
    try:
        return SamplingParams(**values)
    except ValueError:
        return SamplingParams(seed=values.get("seed", 0) % 2**64)


def unpack_marks(blob: bytes | None) -> TokenMarks | None:
    """Marks of tokens; None for no blob, or for one that is not whole words."""
    return None if blob is None or len(blob) % 2 else TokenMarks(blob)


def pack_calls(calls: Sequence[ToolCall]) -> str | None:
    """Return tool calls as JSON; None for none."""
    return json.dumps([asdict(call) for call in calls]) if calls else None


def unpack_calls(text: str | None) -> tuple[ToolCall, ...]:
    """Return tool calls from JSON; what is none is left out."""
    try:
        loaded = json.loads(text) if text is not None else None
    except (ValueError, RecursionError):
        return ()
    if not isinstance(loaded, list):
        return ()
    found = [each for each in loaded if isinstance(each, Mapping)]
    calls: list[ToolCall] = []
    for each in found:
        number, name, arguments = each.get("id"), each.get("name"), each.get("arguments")
        if isinstance(number, str) and isinstance(name, str) and isinstance(arguments, str):
            calls.append(ToolCall(number, name, arguments))
    return tuple(calls)


def pack_setup(setup: ChatSetup) -> str:
    """Return a conversation's setup as JSON."""
    return json.dumps(asdict(setup))


def unpack_setup(text: str | None) -> ChatSetup:
    """Return a setup from JSON; what is missing or makes no sense is left at its default."""
    if text is None:
        return ChatSetup()
    loaded = _known(text, ChatSetup)
    values = _sensible(loaded, ChatSetup())
    optional: tuple[tuple[str, type], ...] = (
        ("seed", int),
        ("max_tokens", int),
        ("thinking", bool),
        ("thought_tokens", int),
        ("seen_after", int),
    )
    for name, kind in optional:
        if type(loaded.get(name)) is kind:
            values[name] = loaded[name]
    tools = values.get("tools", ())[:_MOST_TOOLS]
    values["tools"] = tuple(each for each in tools if isinstance(each, str))
    setup = ChatSetup(**values)
    try:
        setup.sampling(setup.seed or 0)
    except ValueError:
        return ChatSetup(setup.system_prompt, setup.preset)
    return setup


def _known(text: str | None, kind: type) -> dict[str, Any]:
    """The entries of a JSON object that are fields of `kind`; none for anything else."""
    try:
        loaded = json.loads(text) if text is not None else None
    except (ValueError, RecursionError):
        return {}
    if not isinstance(loaded, Mapping):
        return {}
    names = {field.name for field in fields(kind)}
    return {name: _tuples(value) for name, value in loaded.items() if name in names}


def _sensible(values: Mapping[str, Any], defaults: Any) -> dict[str, Any]:  # noqa: ANN401
    """The values that have their default's type; whole numbers pass for fractions."""
    kept: dict[str, Any] = {}
    for name, value in values.items():
        kind = type(getattr(defaults, name))
        if kind is float and type(value) is int and abs(value) < _LARGEST:
            kept[name] = float(value)
        elif type(value) is kind and value is not None:
            kept[name] = value
    return kept


def _tuples(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value
