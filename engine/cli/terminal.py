"""Texts of models and servers on a terminal, which obeys some of their characters."""

from __future__ import annotations

import re

_COMMANDS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def harmless(text: str) -> str:
    """Return a text without what sets a terminal's clipboard, title, keys or colours."""
    return _COMMANDS.sub("\N{REPLACEMENT CHARACTER}", text)
