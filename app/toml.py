"""Writes TOML; reading is in the standard library. Values are what `tomllib` gives out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date, datetime, time
from math import isfinite, isnan
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def dumps(table: Mapping[str, Any]) -> str:
    """The document: plain values first, then tables, then lists of tables as `[[name]]`."""
    plain, tables = [], []
    for key, value in table.items():
        if isinstance(value, Mapping):
            tables.append(f"\n[{_key(key)}]\n{_lines(value)}")
        elif _is_list_of_tables(value):
            tables += [f"\n[[{_key(key)}]]\n{_lines(each)}" for each in value]
        else:
            plain.append(f"{_key(key)} = {_value(value)}\n")
    return "".join(plain + tables)


def _is_list_of_tables(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, Mapping) for v in value)


def _lines(table: Mapping[str, Any]) -> str:
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in table.items())


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _text(value)
        case float():
            return _float(value)
        case int():
            return str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case Mapping():
            return "{" + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(_value, value)) + "]"
    raise TypeError(f"TOML has no {type(value).__name__}")


def _float(value: float) -> str:
    if isnan(value):
        return "nan"
    if not isfinite(value):
        return "inf" if value > 0 else "-inf"
    return repr(value)


def _text(text: str) -> str:
    """A basic string: JSON's escapes, DEL besides, and no halves of surrogate pairs."""
    whole = text.encode("utf-8", "replace").decode("utf-8")
    return json.dumps(whole, ensure_ascii=False).replace("\x7f", "\\u007f")
