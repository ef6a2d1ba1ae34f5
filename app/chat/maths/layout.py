"""Formulas on several lines: matrices, cases and aligned equations, in a font of equal widths."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_BRACKETS = {
    "matrix": ("   ", "   "),
    "array": ("   ", "   "),
    "smallmatrix": ("   ", "   "),
    "pmatrix": ("\u239b\u239c\u239d", "\u239e\u239f\u23a0"),
    "bmatrix": ("\u23a1\u23a2\u23a3", "\u23a4\u23a5\u23a6"),
    "Bmatrix": ("\u23a7\u23aa\u23a9", "\u23ab\u23aa\u23ad"),
    "vmatrix": ("\u2502\u2502\u2502", "\u2502\u2502\u2502"),
    "Vmatrix": ("\u2551\u2551\u2551", "\u2551\u2551\u2551"),
}


@dataclass(frozen=True, slots=True)
class MathBox:
    """Rows of text that belong together."""

    rows: list[str]


def beside(parts: Iterable[MathBox]) -> MathBox:
    """`parts` from left to right, each centred on the highest."""
    parts = list(parts)
    height = max((len(part.rows) for part in parts), default=1)
    rows = [""] * height
    for part in parts:
        wide = max(map(width, part.rows))
        above = (height - len(part.rows)) // 2
        for index in range(height):
            inside = 0 <= index - above < len(part.rows)
            text = part.rows[index - above] if inside else ""
            rows[index] += text + " " * (wide - width(text))
    return MathBox([row.rstrip() for row in rows])


def enclosed(rows: Sequence[Sequence[str]], name: str) -> MathBox:
    """Return a matrix or cases, with brackets as high as it is."""
    texts = _columns(rows)
    if name == "cases":
        marked = zip(_brace(len(rows)), texts, strict=True)
        return MathBox([f"{mark} {text}".rstrip() for mark, text in marked])
    left, right = _BRACKETS.get(name, _BRACKETS["bmatrix"])
    last = len(texts) - 1
    lines = []
    for index, text in enumerate(texts):
        piece = 0 if index == 0 else 2 if index == last else 1
        lines.append(f"{left[piece]} {text} {right[piece]}".rstrip())
    return MathBox(lines)


def aligned(rows: Sequence[Sequence[str]]) -> MathBox:
    """Equations below each other, aligned where they were marked."""
    columns = max(map(len, rows))
    widths = [
        max((width(row[column]) for row in rows if column < len(row)), default=0)
        for column in range(columns)
    ]
    lines = []
    for row in rows:
        text = ""
        for column, cell in enumerate(row):
            space = " " * (widths[column] - width(cell))
            joint = (" " if column % 2 else "   ") if column else ""
            text += joint + (cell + space if column % 2 else space + cell)
        lines.append(text.rstrip())
    return MathBox(lines)


def width(text: str) -> int:
    """Return the width of `text` in characters: combining marks take no room."""
    return sum(1 for character in text if not unicodedata.combining(character))


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows with their cells padded to columns."""
    columns = max(map(len, rows))
    padded = [[*row, *[""] * (columns - len(row))] for row in rows]
    widths = [max(width(row[column]) for row in padded) for column in range(columns)]
    lines = []
    for row in padded:
        cells = zip(row, widths, strict=True)
        lines.append("  ".join(cell + " " * (wide - width(cell)) for cell, wide in cells))
    return lines


def _brace(height: int) -> list[str]:
    """The parts of a brace that opens cases."""
    if height == 1:
        return ["{"]
    if height == 2:
        return ["\u23b0", "\u23b1"]
    middle = height // 2
    marks = ["\u23aa"] * height
    marks[0], marks[middle], marks[-1] = "\u23a7", "\u23a8", "\u23a9"
    return marks
