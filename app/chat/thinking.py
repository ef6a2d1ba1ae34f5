"""Thoughts: the stretches of an answer in which a model thinks before it speaks."""

from __future__ import annotations

import re

_OPENING = re.compile(r"\s*<think(?:ing)?>")
_CLOSING = re.compile(r"</think(?:ing)?>")


def parts(text: str) -> tuple[str, str]:
    """What an answer thinks and what it says; the thought of an answer still thinking is open."""
    opening = _OPENING.match(text)
    start = opening.end() if opening else 0
    closing = _CLOSING.search(text, start)
    if closing is not None:
        return text[start : closing.start()].strip(), text[closing.end() :].strip()
    return (text[start:].strip(), "") if opening else ("", text.strip())
