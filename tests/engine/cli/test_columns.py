"""Columns on a terminal."""

from __future__ import annotations

import pytest

from engine.cli import columns


@pytest.mark.parametrize(
    ("text", "cells"), [("", 0), ("plain", 5), ("草稿", 4), ("“草”", 4), ("e\u0301", 1), ("Ａ", 2)]
)
def test_width_counts_cells(text: str, cells: int) -> None:
    assert columns.width(text) == cells


def test_columns_are_as_wide_in_every_language() -> None:
    assert columns.left("ab", 4) == "ab  "
    assert columns.right("ab", 4) == "  ab"
    assert columns.left("草稿", 6) == "草稿  "
    assert columns.right("草稿", 6) == "  草稿"
    assert columns.left("much too long", 4) == "much too long"
