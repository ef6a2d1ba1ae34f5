"""Texts of tools made harmless: no control characters, and no more than a model can read."""

from __future__ import annotations

import re
import unicodedata

from engine.language import tr

MOST = 32_000
"""Characters of a result; the model's context may allow fewer."""
_LEAST = 1_000
_OVERRIDES = re.compile("[\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c\ufeff\u2028\u2029]")
"""Characters that turn or hide what stands beside them."""


def harmless(text: str) -> str:
    """Return a text without control characters; line ends and tabs stay."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text.isprintable():
        text = "".join(map(_harmless_one, text))
    return _OVERRIDES.sub("\ufffd", text)


def _harmless_one(character: str) -> str:
    if character in "\n\t":
        return character
    return "\ufffd" if unicodedata.category(character) in ("Cc", "Cs") else character


def one_line(text: str, most: int = 200) -> str:
    """Return a name or description of somebody else's in a line."""
    line = " ".join(harmless(text[: 4 * most]).split())
    return line if len(line) <= most else line[: most - 1] + "\u2026"


def capped(text: str, context: int | None = None) -> str:
    """Return a result that leaves room for an answer.

    Args:
        text: the result.
        context: tokens of the model's context; None: not known.
    """
    most = MOST if context is None else min(MOST, max(_LEAST, context * 3 // 2))
    if len(text) <= most:
        return text
    left_out = tr("[{count} characters were left out]").format(count=len(text) - most)
    return f"{text[:most]}\n{left_out}"
