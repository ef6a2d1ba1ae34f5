"""Origins of web pages, as users name them and browsers send them."""

from __future__ import annotations

import re

EVERY = "*"
"""Stands for all of them."""
_ORIGIN = re.compile(
    r"[a-z][a-z0-9+.-]{0,40}://(?:[a-z0-9](?:[a-z0-9._-]{0,252}[a-z0-9])?|\[[0-9a-f:.]{2,45}\])"
    r"(?::[0-9]{1,5})?"
)


def plain_origin(text: str) -> str:
    """Return an origin as it is compared: in lower case, without a slash at its end."""
    return text.strip().rstrip("/").lower()


def is_origin(text: str) -> bool:
    """Return whether a text names a page's origin, as in "https://chat.example:8080", or all.

    A page that has none of its own says "null", as any other such page does: nobody can name it.
    """
    return text == EVERY or _ORIGIN.fullmatch(plain_origin(text)) is not None
