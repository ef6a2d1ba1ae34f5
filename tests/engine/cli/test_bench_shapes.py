"""`duotail bench shapes`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from command_line import Duotail

from engine.bench import shape_speed
from engine.bench.forward import random_subject
from engine.bench.peer.side import PeerSettings
from engine.bench.random_model import RandomModel, random_draft
from engine.bench.shapes import SHAPES, shape
from engine.errors import Absent, UserFixable

QUICK = ("bench", "shapes", "--shape", "small", "--threads", "1", "--runs", "2", "--tokens", "24")


@pytest.fixture(autouse=True)
def _small_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {"num_hidden_layers": 2, "hidden_size": 128, "intermediate_size": 320}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    monkeypatch.setitem(SHAPES, "small", {**SHAPES["llama2-7b"], **changes, **heads})


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
    assert report["overlap"] == 0, "it drafts first, then verifies"


def test_drafting_in_parallel(duotail: Duotail) -> None:
    """The headline is the parallel loop's; fixed depths are drafted in turns."""
    gpu = ("--mode", "duo", "--simulate-gpu", "0.2", "--depth", "2", "--acceptance", "0.8")
    done = duotail(*QUICK, *gpu, "--json")
    assert (done.code, done.err) == (0, "")
    report: dict[str, Any] = done.json
    assert report["plan"]["mode"] == "duo"
    assert report["exact"] is True
    assert report["auto"]["tokens_per_s"] == report["tokens_per_s"] > 0
    assert 0 <= report["overlap"] <= 1
    assert min(report["ttft_ms"], report["plain_ttft_ms"], report["serial_ttft_ms"]) > 0
    assert list(report["depths"]) == ["2"]


def test_memory_is_what_is_held(duotail: Duotail) -> None:
    report = duotail(*QUICK, "--depth", "2", "--mode", "cpu", "--json").json
    config = shape("small")
    memory = report["memory"]["cpu"]
    held = random_subject(config, "q4_0").decoder.weight_bytes
    assert memory["ledger"]["target"] == memory["predicted"]["target"] == held
    assert memory["ledger"]["draft"] == memory["predicted"]["draft"] > 0
    assert memory["ledger"]["total"] >= memory["touched"] > held
    assert memory["predicted"]["total"] == pytest.approx(memory["ledger"]["total"], rel=0.05)
    assert list(report["depths"]) == ["2"]
    assert report["auto"]["plain_share"] < 0.2  # cpu is forced


def test_plain_drafts_nothing(duotail: Duotail) -> None:
    report = duotail(*QUICK, "--mode", "plain", "--json").json
    assert (report["speedup"], report["auto"], report["depths"]) == (1, None, {})
    assert report["tokens_per_s"] == report["plain_tokens_per_s"] > 0
    assert report["t_draft_ms"] is report["c"] is report["attainable"] is None


def test_what_lies_on_an_accelerator(duotail: Duotail) -> None:
    gpu = ("--simulate-gpu", "1", "--layers-on-gpu", "1", "--mode", "dovetail", "--depth", "2")
    report = duotail(*QUICK, *gpu, "--json").json
    assert report["plan"]["mode"] == "dovetail"
    assert report["plan"]["layers_on_gpu"] == 1
    assert report["exact"] is True
    assert report["predicted_tokens_per_s"] > 0
    there = report["memory"]["simulated:0"]
    assert there["predicted"]["total"] == pytest.approx(there["ledger"]["total"], rel=0.05)
    assert there["ledger"]["target"] > 0


@pytest.mark.release(keep=1, reason="every draft")
@pytest.mark.parametrize("draft", ["dgf-1", "eagle", "eagle3", "small"])
@pytest.mark.parametrize("trees", [(), ("--trees",)])
def test_drafts_by_name(duotail: Duotail, draft: str, trees: tuple[str, ...]) -> None:
    """On an accelerator with little room beside them, for chains and for trees."""
    gpu = ("--simulate-gpu", "0.1", "--vram", "0.03", "--mode", "dovetail", "--depth", "3")
    ask = (*QUICK[:-2], "--tokens", "8", "--draft", draft, "--acceptance", "1", *gpu, *trees)
    report = duotail(*ask, "--json").json
    assert report["exact"] is True
    assert report["plan"]["draft_device"] == "simulated:0"
    assert report["depths"]["3"]["acceptance_length"] == 4
    assert report["t_draft_ms"] > 0
    assert (report["head_reads_ms"] is None) == (draft == "small")
    for memory in report["memory"].values():
        assert memory["kept_to_budget"] is True
        assert memory["ledger"]["total"] <= memory["peak"] <= memory["budget"]
        assert memory["predicted"]["total"] >= memory["peak"]
    features = report["memory"]["cpu"]["ledger"]["features"]
    assert features == report["memory"]["cpu"]["predicted"]["features"]
    assert (features > 0) == (draft != "small")


def test_a_draft_of_no_known_name_is_refused() -> None:
    target = RandomModel.published("qwen2.5-0.5b", "q4_0")
    with pytest.raises(UserFixable, match="There is no draft “nonsense”"):
        random_draft(target, "nonsense")


def test_an_mtp_head_has_the_types_of_the_file_that_it_lies_in() -> None:
    target = RandomModel.published("qwen3.5-0.8b", "q4_0")
    head, small = random_draft(target, "mtp"), random_draft(target, "small")
    assert {kind for name, kind in head.kinds.items() if "_proj" in name} == {"Q4_0"}
    assert {kind for name, kind in small.kinds.items() if "_proj" in name} == {"Q8_0"}


def test_a_table_for_people(duotail: Duotail) -> None:
    table = duotail(*QUICK, "--depth", "1").out
    assert "depth 1, the best" in table
    assert "texts equal" in table


class FakePeer:
    """A peer whose forwards take a tenth of a second however many rows they have."""

    settings = PeerSettings("peer", "1", "abc", "1", "", (), 1, "f16", False, 1.0, 1.0)

    def awake(self) -> AbstractContextManager[None]:
        return nullcontext()

    def forwards(self, counts: Sequence[int], runs: int) -> list[list[float]]:
        return [[0.1] * runs for _ in counts]

    def prefills(self, runs: int) -> list[float]:
        return [1.0] * runs


def test_what_a_peer_could_do_at_best(duotail: Duotail, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape_speed, "find_interpreter", lambda: None)
    monkeypatch.setattr(shape_speed, "llama_cpp", lambda *_: nullcontext(FakePeer()))
    ask = (*QUICK, "--depth", "3", "--acceptance", "1", "--peer", "llama.cpp")
    report = duotail(*ask, "--json").json
    peer = report["peer"]
    assert peer["t_verify_ms"] == dict.fromkeys(report["t_verify_ms"], 100)
    assert peer["t_draft_ms"] == 100
    # 16 rows in a forward and 15 drafted tokens: 16 tokens in 1.6 s, as fast as plain decoding.
    assert peer["attainable"]["tokens_per_s"] == pytest.approx(10)
    assert report["best_ratio_to_peer_attainable"] == pytest.approx(
        report["depths"]["3"]["tokens_per_s"] / 10
    )
    table = duotail(*ask).out
    assert "llama.cpp at best" in table
    assert "peer 1 (abc)" in table


def test_a_peer_that_is_not_there(duotail: Duotail, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> Path:
        raise Absent("llama.cpp is not installed here.", "Install it.")

    monkeypatch.setattr(shape_speed, "find_interpreter", absent)
    assert duotail(*QUICK, "--peer", "llama.cpp").code == 3


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--shape", "nonsense"), 2),
        (("--shape", "small", "--acceptance", "1.5"), 2),
        (("--shape", "small", "--acceptance", "high"), 2),
        (("--shape", "small", "--mode", "duo"), 3),
        (("--shape", "small", "--mode", "dovetail", "--hardware", "none.json"), 2),
        ((), 2),
    ],
)
def test_what_cannot_be_measured(duotail: Duotail, arguments: tuple[str, ...], code: int) -> None:
    assert duotail("bench", "shapes", *arguments, "--json").code == code
