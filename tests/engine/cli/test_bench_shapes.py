"""`duotail bench shapes`."""

from __future__ import annotations

from typing import Any

import pytest
from command_line import Duotail

from engine.bench.forward import decoder_for
from engine.bench.shapes import SHAPES, RandomWeights, draft_shape
from engine.commands import WeightFormat

QUICK = ("bench", "shapes", "--shape", "small", "--threads", "1", "--runs", "2", "--tokens", "24")


@pytest.fixture(autouse=True)
def _small_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    config = draft_shape(draft_shape(SHAPES["llama2-7b"]), hidden=128, layers=2)
    monkeypatch.setitem(SHAPES, "small", config)


def test_what_is_reported(duotail: Duotail) -> None:
    done = duotail(*QUICK, "--acceptance", "1", "--json")
    assert (done.code, done.err) == (0, "")
    report: dict[str, Any] = done.json
    assert list(report)[:7] == [
        "plain_tokens_per_s", "tokens_per_s", "speedup", "t_verify_ms", "t_draft_ms", "c", "memory",
    ]  # fmt: skip
    assert report["exact"] is True
    assert set(report["t_verify_ms"]) == {*map(str, range(1, 10)), "16"}
    assert report["c"] == pytest.approx(report["t_draft_ms"] / report["t_verify_ms"]["1"])
    assert report["speedup"] == pytest.approx(report["tokens_per_s"] / report["plain_tokens_per_s"])
    assert list(report["depths"]) == [str(depth) for depth in range(1, 9)]
    for depth, speed in report["depths"].items():
        assert speed["acceptance_length"] == int(depth) + 1
        assert speed["accepted"] == 1
    best = report["depths"][str(report["best_depth"])]["speedup"]
    assert best == max(speed["speedup"] for speed in report["depths"].values())
    assert report["attainable"]["depth"] >= 0


def test_memory_is_what_is_held(duotail: Duotail) -> None:
    report = duotail(*QUICK, "--depth", "2", "--mode", "cpu", "--json").json
    config = SHAPES["small"]
    held = decoder_for(config, RandomWeights(config), WeightFormat.Q4).weight_bytes
    assert report["memory"]["weights"] == held
    assert all(nbytes > 0 for nbytes in report["memory"].values())
    assert list(report["depths"]) == ["2"]
    assert report["auto"]["plain_share"] < 0.2  # cpu is forced


def test_plain_drafts_nothing(duotail: Duotail) -> None:
    report = duotail(*QUICK, "--mode", "plain", "--json").json
    assert (report["speedup"], report["auto"], report["depths"]) == (1, None, {})
    assert report["tokens_per_s"] == report["plain_tokens_per_s"] > 0
    assert report["t_draft_ms"] is report["c"] is report["attainable"] is None


def test_a_table_for_people(duotail: Duotail) -> None:
    table = duotail(*QUICK, "--depth", "1").out
    assert "depth 1, the best" in table
    assert "texts equal" in table


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--shape", "nonsense"), 2),
        (("--shape", "small", "--acceptance", "1.5"), 2),
        (("--shape", "small", "--acceptance", "high"), 2),
        (("--shape", "small", "--mode", "duo"), 3),
        ((), 2),
    ],
)
def test_what_cannot_be_measured(duotail: Duotail, arguments: tuple[str, ...], code: int) -> None:
    assert duotail("bench", "shapes", *arguments, "--json").code == code
