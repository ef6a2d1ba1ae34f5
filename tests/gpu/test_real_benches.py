"""The benchmarks that need a real accelerator: they run, keep to budgets, and say what is so."""

from __future__ import annotations

import json

import pytest

from engine.cli import main

pytestmark = pytest.mark.gpu


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert main(["bench", *arguments, "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_dovetail_keeps_to_its_budgets(capsys: pytest.CaptureFixture[str]) -> None:
    found = report(
        capsys,
        *("dovetail", "--shape", "qwen2.5-1.5b", "--draft", "dgf-2", "--draft-format", "q4_0"),
        *("--vram", "1.3,3", "--acceptance", "0.8", "--tokens", "24", "--runs", "1"),
    )
    assert found["kept_to_budget"] is True
    rows = found["rows"]
    assert isinstance(rows, list)
    assert [row["plan"]["mode"] for row in rows] == ["plain", "dovetail", "dovetail"]
    assert rows[0]["plan"]["layers_on_gpu"] == 0
    assert rows[1]["plan"]["layers_on_gpu"] < rows[2]["plan"]["layers_on_gpu"]
    assert all(row["t_draft_ms"] > 0 for row in rows[1:])


def test_products_read_no_faster_than_memory(capsys: pytest.CaptureFixture[str]) -> None:
    """And not absurdly slowly either; the goals are for the large shapes."""
    found = report(
        capsys,
        *("accelerator", "--shape", "qwen2.5-1.5b", "--formats", "bf16,q4_0", "--rows", "1,8"),
        *("--tokens", "24", "--runs", "1"),
    )
    products = found["products"]
    assert isinstance(products, dict)
    for wanted in ("bf16", "q4_0"):
        for time in products[wanted]["parts"]["all"].values():
            assert 0.001 < time["share"] < 1.5
    decode = found["decode"]
    assert isinstance(decode, dict)
    assert all(0 < speed["share"] < 1.2 for speed in decode.values())
