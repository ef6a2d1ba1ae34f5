"""`bench shapes` on a real accelerator: it runs, keeps to budgets, and its texts are equal."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from stand_ins import Card

from engine.cli import main

pytestmark = pytest.mark.gpu
SIMULATED = ["--shape", "llama-160m", "--tokens", "12", "--simulate-gpu", "1"]

Report = Callable[..., Any]


@pytest.fixture
def report(card: Card, capsys: pytest.CaptureFixture[str]) -> Report:
    """Measures a shape with further options, and returns what it reports."""
    quick = ["--acceptance", "0.8", "--runs", "1"]
    quick += ["--shape", "qwen2.5-1.5b", "--tokens", "24"] if card.real else SIMULATED

    def measured(*arguments: str) -> Any:
        assert main(["bench", "shapes", *quick, *arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return measured


def kept_to_budget(found: Any) -> bool:
    return all(memory["kept_to_budget"] for memory in found["memory"].values())


def test_dovetail_keeps_to_its_budgets(card: Card, report: Report) -> None:
    head = ("--mode", "dovetail", "--draft", "dgf-2", "--draft-format", "q4_0", "--depth", "5")
    budgets = ("1.3", "3") if card.real else ("0.15", "0.9")
    little, much = (report(*head, "--vram", vram) for vram in budgets)
    assert kept_to_budget(little)
    assert kept_to_budget(much)
    assert little["plan"]["mode"] == much["plan"]["mode"] == "dovetail"
    assert little["plan"]["layers_on_gpu"] < much["plan"]["layers_on_gpu"]
    assert little["t_draft_ms"] > 0


def test_plain_decoding_there(card: Card, report: Report) -> None:
    found = report("--mode", "plain", "--layers-on-gpu", "all")
    assert found["plan"]["layers_on_gpu"] == (28 if card.real else 12)
    assert found["plain_tokens_per_s"] > 0
    assert kept_to_budget(found)


def test_drafting_at_the_same_time(card: Card, report: Report) -> None:
    found = report("--mode", "duo", "--draft", "llama-68m", "--depth", "3")
    assert found["exact"] is True
    assert found["plan"]["draft_device"] == "cpu"
    assert found["auto"]["acceptance_length"] >= 1
    assert not card.real or found["auto"]["acceptance_length"] > 1, "a busy CPU may draft nothing"
