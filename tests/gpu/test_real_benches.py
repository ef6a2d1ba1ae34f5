"""`bench shapes` on a real accelerator: it runs, keeps to budgets, and its texts are equal."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.cli import main

pytestmark = pytest.mark.gpu

QUICK = ("--shape", "qwen2.5-1.5b", "--acceptance", "0.8", "--tokens", "24", "--runs", "1")


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main(["bench", "shapes", *QUICK, *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def kept_to_budget(found: Any) -> bool:
    return all(memory["kept_to_budget"] for memory in found["memory"].values())


def test_dovetail_keeps_to_its_budgets(capsys: pytest.CaptureFixture[str]) -> None:
    head = ("--mode", "dovetail", "--draft", "dgf-2", "--draft-format", "q4_0", "--depth", "5")
    little, much = (report(capsys, *head, "--vram", vram) for vram in ("1.3", "3"))
    assert kept_to_budget(little)
    assert kept_to_budget(much)
    assert little["plan"]["mode"] == much["plan"]["mode"] == "dovetail"
    assert little["plan"]["layers_on_gpu"] < much["plan"]["layers_on_gpu"]
    assert little["t_draft_ms"] > 0


def test_plain_decoding_there(capsys: pytest.CaptureFixture[str]) -> None:
    found = report(capsys, "--mode", "plain", "--layers-on-gpu", "all")
    assert found["plan"]["layers_on_gpu"] == 28
    assert found["plain_tokens_per_s"] > 0
    assert kept_to_budget(found)


def test_drafting_at_the_same_time(capsys: pytest.CaptureFixture[str]) -> None:
    found = report(capsys, "--mode", "duo", "--draft", "llama-68m", "--depth", "3")
    assert found["exact"] is True
    assert found["plan"]["draft_device"] == "cpu"
    assert found["auto"]["acceptance_length"] > 1
