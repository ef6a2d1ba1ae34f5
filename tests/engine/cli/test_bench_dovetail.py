"""`duotail bench dovetail`: the paper's table, on shapes that take no time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import Duotail

from engine.bench.shapes import SHAPES
from engine.hardware.machine_file import write
from engine.machine.facts import Accelerator, Host, Machine, Vendor
from engine.machine.speeds import Speeds

GIB = 2**30
QUICK = (
    *("bench", "dovetail", "--shape", "small", "--threads", "1", "--runs", "1", "--tokens", "12"),
    *("--depth", "3"),
)


@pytest.fixture(autouse=True)
def _small_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {"num_hidden_layers": 4, "hidden_size": 128, "intermediate_size": 320}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 2048}
    monkeypatch.setitem(SHAPES, "small", {**SHAPES["llama2-7b"], **changes, **heads})


@pytest.mark.parametrize(
    ("draft", "little_room"), [("small", "0.012"), ("dgf-2", "0.0062"), ("eagle3", "0.006")]
)
def test_a_row_for_every_budget(duotail: Duotail, draft: str, little_room: str) -> None:
    gpu = ("--simulate-gpu", "0.1", "--vram", f"{little_room},0.1", "--acceptance", "0.5,1")
    done = duotail(*QUICK, "--draft", draft, *gpu, "--json")
    assert (done.code, done.err) == (0, "")
    report: dict[str, Any] = done.json
    alone, little, all_of_it = report["rows"]
    assert report["exact"] is report["kept_to_budget"] is True
    assert report["plain_tokens_per_s"] == alone["plain_tokens_per_s"] > 0
    assert (alone["vram"], alone["acceptances"], alone["t_draft_ms"], alone["c"]) == (
        0,
        {},
        None,
        None,
    )
    assert alone["plan"]["mode"] == "plain"
    layers = [row["plan"]["layers_on_gpu"] for row in report["rows"]]
    assert layers[0] == 0
    assert layers[0] <= layers[1] < layers[2] == 4
    for row in (little, all_of_it):
        assert row["plan"]["mode"] == "dovetail"
        assert row["plan"]["draft_device"] == "simulated:0"
        assert list(row["acceptances"]) == ["0.5", "1.0"]
        for found in row["acceptances"].values():
            assert found["tokens_per_s"] == found["auto"]["tokens_per_s"] > 0
            assert found["speedup_over_cpu"] == pytest.approx(
                found["tokens_per_s"] / alone["plain_tokens_per_s"]
            )
        assert row["acceptances"]["1.0"]["depths"]["3"]["acceptance_length"] == 4
        assert row["acceptances"]["0.5"]["depths"]["3"]["acceptance_length"] < 3
        there = row["memory"]["simulated:0"]
        assert there["peak"] <= there["budget"] == row["vram"]
        assert there["ledger"]["total"] <= there["predicted"]["total"]
        assert there["predicted"]["total"] == pytest.approx(there["ledger"]["total"], rel=0.05)
        host = row["memory"]["cpu"]
        assert host["ledger"]["features"] == host["predicted"]["features"]
        assert (host["ledger"]["features"] > 0) == (draft != "small")
        assert set(row["t_verify_ms"]) == {"1", "2", "4", "8", "16", "32"}
        assert row["c"] == pytest.approx(row["t_draft_ms"] / row["t_verify_ms"]["1"])
        assert row["paper_tokens_per_s"] is None  # another shape


@pytest.mark.parametrize("draft", ["dgf-1", "eagle3"])
def test_torch_in_an_accelerator_s_place(duotail: Duotail, tmp_path: Path, draft: str) -> None:
    """Its "cpu" device: the texts are those of the target alone, placed alike."""
    card = Accelerator("cpu:0", "A card", Vendor.NVIDIA, 4 * GIB, 4 * GIB)
    path = tmp_path / "machine.json"
    write(path, Machine(Host(1, 8 * GIB, 4 * GIB), (card,)), Speeds({}))
    room = ("--hardware", path, "--vram", "1", "--acceptance", "1", "--draft", draft)
    done = duotail(*QUICK, *room, "--json")
    assert (done.code, done.err) == (0, "")
    report: dict[str, Any] = done.json
    assert report["exact"] is report["kept_to_budget"] is True
    row = report["rows"][1]
    assert (row["plan"]["draft_device"], row["plan"]["layers_on_gpu"]) == ("cpu:0", 4)
    assert row["acceptances"]["1.0"]["depths"]["3"]["acceptance_length"] == 4
    there = row["memory"]["cpu:0"]
    assert there["ledger"]["draft"] == pytest.approx(there["predicted"]["draft"], rel=0.01)
    assert there["peak"] <= there["predicted"]["total"] <= there["budget"]


def test_a_table_for_people(duotail: Duotail) -> None:
    gpu = ("--simulate-gpu", "0.1", "--vram", "0.1", "--acceptance", "0.8", "--draft", "small")
    table = duotail(*QUICK, *gpu).out
    assert "the CPU alone" in table
    assert "0.1\N{NO-BREAK SPACE}GiB, 4 of 4 layers" in table
    assert "drafting a level" in table
    assert "at most 0.0" in table
    assert "texts equal" in table


def test_without_an_accelerator(duotail: Duotail, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = Machine(Host(1, 8 * GIB, 4 * GIB))
    monkeypatch.setattr("engine.loading.devices.probe_machine", lambda: bare)
    done = duotail(*QUICK, "--json")
    assert done.code == 3
    assert "needs a graphics card" in done.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("--acceptance", "0.5,2"),
        ("--vram", "some"),
        ("--draft", "dgf-0"),
        ("--shape", "nonsense"),
        ("--simulate-gpu", "0.1", "--vram", "0.0001"),
    ],
)
def test_what_cannot_be_measured(duotail: Duotail, arguments: tuple[str, ...]) -> None:
    assert duotail(*QUICK, *arguments, "--json").code == 2
