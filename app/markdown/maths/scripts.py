"""Raised and lowered parts of a formula that Unicode has no letters for.

A rendered formula carries them between marks, so that it stays one string: the window raises and
lowers them, plain text says them with `^` and `_`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from app.markdown.maths.symbols import PLAIN

_RAISED, _LOWERED, _END = "\ue000", "\ue001", "\ue002"
_SCRIPT = re.compile(f"([{_RAISED}{_LOWERED}])([^{_END}]*){_END}")
_MARKS = re.compile(f"[{_RAISED}{_LOWERED}{_END}]")


def shifted(text: str, *, raised: bool) -> str:
    """`text` marked as raised or lowered; what is so within it is said in line."""
    return f"{_RAISED if raised else _LOWERED}{in_line(text)}{_END}"


def scripts(text: str) -> Iterator[tuple[int, str]]:
    """The parts of a rendered formula with how they are shifted: 1 up, -1 down."""
    at = 0
    for match in _SCRIPT.finditer(text):
        if match.start() > at:
            yield 0, text[at : match.start()]
        yield (1 if match[1] == _RAISED else -1), match[2]
        at = match.end()
    if at < len(text):
        yield 0, text[at:]


def in_line(text: str) -> str:
    """Return a rendered formula with raised and lowered parts said with signs."""
    return _SCRIPT.sub(_said, text)


def plain(text: str) -> str:
    """Return a rendered formula in common letters, all in line."""
    return in_line(text).translate(PLAIN)


def without_marks(text: str) -> str:
    """Return the typed text without the characters that serve as marks here."""
    return _MARKS.sub("\ufffd", text)


def _said(match: re.Match[str]) -> str:
    sign = "^" if match[1] == _RAISED else "_"
    short = len(match[2]) == 1 or (sign == "_" and match[2].isalnum())
    return sign + (match[2] if short else f"({match[2]})")
