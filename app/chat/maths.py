"""Formulas in LaTeX as readable text."""

from __future__ import annotations

from collections.abc import Iterator


def render(latex: str) -> str:
    """The formula as text."""
    return latex


def runs(text: str) -> Iterator[tuple[str, bool]]:
    """Stretches of a rendered formula, each with whether it is a variable."""
    yield text, False
