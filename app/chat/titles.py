"""Titles of conversations, taken from their first message."""

from __future__ import annotations

import re

_LONGEST = 60
_MARKS = re.compile(r"^[\s#>*`~_-]+|[*`~_]+")


def title_of(text: str) -> str:
    """The first line with words in it, without markdown, cut at a word if it is long."""
    for line in text.splitlines():
        words = " ".join(_MARKS.sub(" ", line).split())
        if words:
            break
    else:
        return "New chat"
    if len(words) <= _LONGEST:
        return words
    cut = words[:_LONGEST]
    if " " in cut[_LONGEST // 2 :]:
        cut = cut[: cut.rindex(" ")]
    return cut.rstrip(" ,;:.") + "\u2026"
