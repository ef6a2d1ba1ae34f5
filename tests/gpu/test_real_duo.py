"""DuoDecoding on a real accelerator: texts, overlap and times to the first token."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.cli import main

pytestmark = pytest.mark.gpu


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main(["bench", "duo", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_shape_with_the_paper_s_draft(capsys: pytest.CaptureFixture[str]) -> None:
    found = report(
        capsys,
        *("--shape", "qwen2.5-1.5b", "--acceptance", "0.8", "--first-token", "512"),
        *("--tokens", "48", "--runs", "2"),
    )
    assert found["exact"] is True
    assert found["plan"]["draft_device"] == "cpu"
    (row,) = found["rows"]
    assert set(row["ways"]) == {"plain", "turns", "turns_on_accelerator", "parallel"}
    assert row["ways"]["parallel"]["lanes"]["overlap"] > 0.5
    assert found["first_token"]["duo_to_baseline"] < 1


def test_the_bundled_pair(capsys: pytest.CaptureFixture[str]) -> None:
    found = report(capsys, "--tokens", "48", "--runs", "1")
    assert found["exact"] is True
    assert found["rows"][0]["ways"]["parallel"]["acceptance_length"] > 1
