"""Technical terms have one tooltip each, wherever a table or picture shows them."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt

from app.widgets.table import Table, formatted
from app.widgets.table_dialog import TableModel
from app.widgets.terms import TERMS, explained

GLOSSARY = " ".join((Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8").split())


@pytest.mark.parametrize("term", TERMS)
def test_the_glossary_of_readme_says_the_same(term: str) -> None:
    assert f"- **{term}**: {TERMS[term]}" in GLOSSARY


def test_a_table_explains_its_terms() -> None:
    model = TableModel(Table("", ("Part", "Accepted"), (("KV cache", "1"), ("Free", "2"))))
    tip = Qt.ItemDataRole.ToolTipRole
    assert [model.data(model.index(row, 0), tip) for row in (0, 1)] == [explained("KV cache"), ""]
    assert model.headerData(1, Qt.Orientation.Horizontal, tip) == TERMS["Accepted"]
    aligned = Qt.ItemDataRole.TextAlignmentRole
    right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
    assert model.headerData(0, Qt.Orientation.Horizontal, aligned) is None
    assert model.headerData(1, Qt.Orientation.Horizontal, aligned) == right
    assert model.data(model.index(0, 1), aligned) == right


def test_rows_in_words_are_a_sequence() -> None:
    rows = formatted(range(9), lambda number: (f"{number}",))
    assert rows[2:4] == [("2",), ("3",)]
    assert rows[-1] == ("8",)
    assert list(rows)[3] == ("3",)
