"""Columns of a table on a terminal, where a Chinese character is as wide as two Latin ones."""

from __future__ import annotations

import unicodedata


def width(text: str) -> int:
    """How many cells of a terminal `text` takes."""
    return sum(
        2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
        if not unicodedata.combining(character)
    )


def left(text: str, cells: int) -> str:
    """`text` at the left of its column."""
    return text + " " * (cells - width(text))


def right(text: str, cells: int) -> str:
    """`text` at the right of its column."""
    return " " * (cells - width(text)) + text
