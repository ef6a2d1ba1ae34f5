"""`duotail bench lanes`: the table of drafting beside verifying."""

from __future__ import annotations

import pytest
from command_line import Duotail

_FEW = ("--acceptance", "0.6,0.8", "--second", "0.3", "--breadth", "0", "--tokens", "300")


def test_every_cell_has_all_machines(duotail: Duotail) -> None:
    said = duotail("bench", "lanes", *_FEW, "--cost", "0.1,0.5", "--json").json
    assert [(cell["first"], cell["cost"]) for cell in said["cells"]] == [
        (0.6, 0.1), (0.6, 0.5), (0.8, 0.1), (0.8, 0.5)
    ]  # fmt: skip
    assert said["cells"][0]["formula"] == pytest.approx(1.56, abs=0.01)
    for cell in said["cells"]:
        assert cell["ours"] > 1
        assert cell["paper"] > 1
    assert said["slower_than_paper"] == said["slower_than_serial"] == 0


def test_the_table_has_a_row_for_each_acceptance(duotail: Duotail) -> None:
    lines = duotail("bench", "lanes", *_FEW, "--cost", "0.2").out.splitlines()
    rows = [line.split() for line in lines if line.startswith(("0.60", "0.80"))]
    assert [len(row) for row in rows] == [2, 2]
    assert all(row[1].count("/") == 2 for row in rows)
    assert not any(cell.startswith("!") for row in rows for cell in row)
