"""Members of a JSON request, each read as the type that it has to have.

`null` counts as left out. Members that nobody reads are ignored: clients send many.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import isfinite

from engine.server.api_error import ApiError, bad_request

_LONGEST_QUOTE = 40


class Members:
    """An object of a request.

    Args:
        value: what should be an object.
        place: where it stands, for messages: "messages[0]"; empty: the request itself.

    Raises:
        ApiError: it is none. So do all methods, where a member is of another type.
    """

    def __init__(self, value: object, place: str = "") -> None:
        if not isinstance(value, dict):
            raise bad_request(f"{place or 'The body'} should be an object.", place or None)
        self._value: Mapping[str, object] = value
        self._place = place

    def place(self, name: str) -> str:
        """Return where a member stands."""
        return f"{self._place}.{name}" if self._place else name

    def raw(self, name: str) -> object:
        """Return a member as it is."""
        return self._value.get(name)

    def with_default(self, name: str, value: object) -> Members:
        """Return the same object with a member that it may lack."""
        return Members({name: value, **self._value}, self._place)

    def wrong(self, name: str, expected: str) -> ApiError:
        """Return the error of a member that should be something else."""
        place = self.place(name)
        return bad_request(f"{place} should be {expected}.", place)

    def unsupported(self, name: str) -> ApiError:
        """Return the error of a member that is understood and not supported."""
        place, value = self.place(name), self.raw(name)
        shown = json.dumps(value) if isinstance(value, str | int | float) else ""
        what = f"{shown} as {place}" if 0 < len(shown) <= _LONGEST_QUOTE else place
        error = bad_request(f"This server does not support {what}.", place)
        error.code = "unsupported_parameter"
        return error

    def text(self, name: str) -> str | None:
        """Return a text."""
        value = self.raw(name)
        return None if value is None else well_formed(value, self.place(name))

    def needed_text(self, name: str) -> str:
        """Return a text that must be there."""
        found = self.text(name)
        if found is None:
            raise self.wrong(name, "a text")
        return found

    def flag(self, name: str) -> bool | None:
        """Return true or false."""
        value = self.raw(name)
        if value is None or isinstance(value, bool):
            return value
        raise self.wrong(name, "true or false")

    def number(self, name: str, low: float, high: float) -> float | None:
        """Return a number within limits."""
        value = self.raw(name)
        if value is None:
            return None
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not low <= value <= high
            or not isfinite(value)
        ):
            raise self.wrong(name, f"a number from {low:g} to {high:g}")
        return float(value)

    def whole(self, name: str, low: int, high: int) -> int | None:
        """Return a whole number within limits; 3.0 is one, as some clients write it."""
        value = self.raw(name)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.wrong(name, f"a whole number from {low} to {high}")
        return value

    def texts(self, name: str, most: int) -> tuple[str, ...]:
        """Return a list of texts without empty ones; a text alone is a list of one."""
        value = self.raw(name)
        if value is None:
            return ()
        found = [value] if isinstance(value, str) else value
        if not isinstance(found, list) or len(found) > most:
            raise self.wrong(name, f"a text, or a list of at most {most} texts")
        return tuple(well_formed(each, self.place(name)) for each in found if each != "")

    def inner(self, name: str) -> Members | None:
        """Return an object."""
        value = self.raw(name)
        return None if value is None else Members(value, self.place(name))

    def list(self, name: str) -> Iterator[Members]:
        """Yield the objects of a list."""
        value = self.raw(name)
        if value is None:
            return
        if not isinstance(value, list):
            raise self.wrong(name, "a list")
        for index, each in enumerate(value):
            yield Members(each, f"{self.place(name)}[{index}]")

    def only(self, name: str, *allowed: object) -> None:
        """Refuse a member whose value is none of those that change nothing."""
        value = self.raw(name)
        if value is not None and not any(value == each for each in allowed):
            raise self.unsupported(name)


def parsed(body: bytes) -> Members:
    """Return a request's body.

    Raises:
        ApiError: it is no JSON object, or one that is nested too deeply.
    """
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_no_number)
    except RecursionError:
        raise bad_request("The body is nested too deeply.") from None
    except ValueError:  # the decoders' words may quote what they were given
        raise bad_request("The body is not valid JSON in UTF-8.") from None
    return Members(value)


def well_formed(value: object, place: str) -> str:
    """Return a text without half characters.

    Raises:
        ApiError: it is something else.
    """
    if not isinstance(value, str):
        raise bad_request(f"{place} should be a text.", place)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise bad_request(f"{place} holds half a character (a lone surrogate).", place) from None
    return value


def _no_number(name: str) -> float:
    raise ValueError(name)
