"""A distrustful view of what a hub answers: members of the right type and size, or none.

What only describes a model is left out where it makes no sense. What decides about files is
`required`, and an answer without it is none that the hub gives.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NoReturn

from engine.hub.remote.faults import Fault, refuse

LARGEST_FILE = 1 << 44
"""Bytes: 16 TiB. No weights are larger; what says so is broken."""
MOST_PARAMETERS = 1 << 50
_MOST_COUNT = 1 << 53
_LONGEST_TEXT = 200


@dataclass(frozen=True, slots=True)
class ServerObject:
    """The members of an object that a server sent."""

    data: Mapping[str, object]

    @classmethod
    def read(cls, text: bytes) -> ServerObject:
        """Read an object in JSON; `HubError` for anything else."""
        found = parsed(text)
        return cls(found) if isinstance(found, dict) else unreadable("no object")

    def text(self, key: str, longest: int = _LONGEST_TEXT) -> str:
        """Return a text on one line; "" where there is none."""
        value = self.data.get(key)
        usable = isinstance(value, str) and 0 < len(value) <= longest and value.isprintable()
        return str(value) if usable else ""

    def count(self, key: str, most: int = _MOST_COUNT) -> int | None:
        """Return a number of things; None where it makes no sense."""
        value = self.data.get(key)
        usable = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
        return value if isinstance(value, int) and usable else None

    def required_size(self, key: str, what: str) -> int:
        """Return the bytes of a file; `HubError` where they make no sense."""
        size = self.count(key, LARGEST_FILE)
        return unreadable(f"size of {what}: {self.data.get(key)!r:.40}") if size is None else size

    def member(self, key: str) -> ServerObject:
        """Return an object in this one; an empty one where there is none."""
        value = self.data.get(key)
        return ServerObject(value if isinstance(value, dict) else {})

    def texts(self, key: str, most: int = 2000) -> tuple[str, ...]:
        """Return a list of texts, or a single one as a list."""
        value = self.data.get(key)
        several = value if isinstance(value, list) else [value]
        return tuple(
            each for each in several[:most] if isinstance(each, str) and 0 < len(each) <= 400
        )

    def time(self, key: str) -> float | None:
        """Return a moment, in seconds since 1970; None where there is none."""
        try:
            return datetime.fromisoformat(self.text(key)).timestamp()
        except (ValueError, OverflowError, OSError):
            return None


def parsed(text: bytes) -> object:
    """Return what a server sent as JSON; `HubError` where it is none."""
    try:
        return json.loads(text, parse_constant=unreadable)
    except (ValueError, RecursionError) as error:
        return unreadable(f"no JSON: {error}")


def objects(value: object, most: int) -> Sequence[Mapping[str, object]]:
    """Return the objects of a list; what is something else among them is left out."""
    if not isinstance(value, list):
        return unreadable("no list")
    return [each for each in value[:most] if isinstance(each, dict)]


def unreadable(what: str) -> NoReturn:
    """Raise the error for an answer that is none of the hub's."""
    raise refuse(Fault.UNREADABLE, what)
