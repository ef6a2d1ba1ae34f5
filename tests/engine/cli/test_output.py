"""Output on a terminal."""

from __future__ import annotations

import pytest

from engine.cli import output


@pytest.mark.parametrize(
    ("text", "cells"), [("", 0), ("plain", 5), ("草稿", 4), ("“草”", 4), ("e\u0301", 1), ("Ａ", 2)]
)
def test_width_counts_cells(text: str, cells: int) -> None:
    assert output.width(text) == cells


def test_columns_are_as_wide_in_every_language() -> None:
    assert output.left("ab", 4) == "ab  "
    assert output.right("ab", 4) == "  ab"
    assert output.left("草稿", 6) == "草稿  "
    assert output.right("草稿", 6) == "  草稿"
    assert output.left("much too long", 4) == "much too long"
