"""Fences of code blocks in markdown."""

from __future__ import annotations

import re

FENCE = re.compile(r"^( {0,3})(`{3,}|~{3,})[ \t]*([^\n]*)")


def closes(line: str, mark: str) -> bool:
    """Return whether `line` is a closing fence for a code block opened with `mark`."""
    stripped = line.strip(" \t")
    indent = len(line) - len(line.lstrip(" "))
    return indent <= 3 and len(stripped) >= len(mark) and set(stripped) == {mark[0]}
