"""Columns of a table on a terminal, where a Chinese character is as wide as two Latin ones."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable


def width(text: str) -> int:
    """Return how many cells of a terminal `text` takes."""
    return sum(
        2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
        if not unicodedata.combining(character)
    )


def table_row(name: str, cells: Iterable[str], widths: tuple[int, int]) -> str:
    """Return a line of a table: a name at the left, then cells at the right of their columns.

    Args:
        name: what the row is about.
        cells: texts of the further columns.
        widths: cells of a terminal that the first column takes, and every further one.
    """
    return left(name, widths[0]) + "".join(right(cell, widths[1]) for cell in cells)


def left(text: str, cells: int) -> str:
    """Pad `text` at the right to `cells` cells of a terminal."""
    return text + " " * (cells - width(text))


def right(text: str, cells: int) -> str:
    """Pad `text` at the left to `cells` cells of a terminal."""
    return " " * (cells - width(text)) + text
