"""Dataclasses as JSON and back, each member checked against its annotation.

Knows numbers, texts, flags, enumerations, tuples, mappings by name, optional values and dataclasses
of these; an `object` is taken as it is. Numbers are neither negative nor beyond 2**63, as facts and
speeds are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from engine.language import listed, tr

T = TypeVar("T")

_MOST = 2**63


class WrongMember(ValueError):
    """A member that is not what it should be, in words; it names the member's place."""


def encoded(value: object) -> object:
    """Return the value as `json.dumps` takes it."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: encoded(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): encoded(member) for name, member in value.items()}
    if isinstance(value, tuple):
        return [encoded(member) for member in value]
    return value


def decoded(kind: type[T], value: object, place: str) -> T:
    """Return the dataclass `kind` from what `json.loads` gave; members may be left at defaults.

    Raises:
        WrongMember: something is missing, unknown or of another type.
    """
    members = _object(value, place)
    known: dict[str, Field[Any]] = {field.name: field for field in fields(cast("Any", kind))}
    if unknown := [name for name in members if name not in known]:
        said = tr("“{place}” has members that are not known: {names}")
        raise WrongMember(said.format(place=place, names=listed(unknown)))
    hints = _hints(cast("Any", kind))
    found = {}
    for name, field in known.items():
        if name in members:
            found[name] = _value(hints[name], members[name], f"{place}.{name}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise WrongMember(tr("“{place}” is missing").format(place=f"{place}.{name}"))
    return kind(**found)


@cache
def _hints(kind: type) -> dict[str, Any]:
    """Return the type hints of a class; cached, since evaluating them dominates decoding."""
    return get_type_hints(kind)


def _value(hint: Any, value: object, place: str) -> object:  # noqa: ANN401 - an annotation
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if value is None:
            return None
        (inner,) = (argument for argument in arguments if argument is not NoneType)
        return _value(inner, value, place)
    if origin is tuple:
        elements = enumerate(_list(value, place))
        return tuple(_value(arguments[0], element, f"{place}[{i}]") for i, element in elements)
    if origin is not None:
        members = _object(value, place).items()
        return {name: _value(arguments[1], member, f"{place}.{name}") for name, member in members}
    if is_dataclass(hint):
        return decoded(cast("type[object]", hint), value, place)
    if issubclass(hint, StrEnum):
        return _member_of(hint, value, place)
    return _PLAIN[hint](value, place)


def _object(value: object, place: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise _wrong(place, tr("an object"))
    return value


def _list(value: object, place: str) -> list[object]:
    if not isinstance(value, list):
        raise _wrong(place, tr("a list"))
    return value


def _member_of(kind: type[StrEnum], value: object, place: str) -> StrEnum:
    found = next((member for member in kind if member == value), None)
    if found is None:
        raise _wrong(place, tr("one of {names}").format(names=listed(list(kind))))
    return found


def _text(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise _wrong(place, tr("a text"))
    return value


def _flag(value: object, place: str) -> bool:
    if not isinstance(value, bool):
        raise _wrong(place, tr("true or false"))
    return value


def _number(value: object, place: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= _MOST:
        raise _wrong(place, tr("a number that is not negative"))
    return float(value)


def _count(value: object, place: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST:
        raise _wrong(place, tr("a whole number that is not negative"))
    return value


_PLAIN: Mapping[type, Callable[[object, str], object]] = {
    str: _text,
    bool: _flag,
    int: _count,
    float: _number,
    object: lambda value, _place: value,
}


def _wrong(place: str, expected: str) -> WrongMember:
    said = tr("“{place}” should be {expected}").format(place=place, expected=expected)
    return WrongMember(said)
