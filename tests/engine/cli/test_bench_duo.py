"""`duotail bench duo`: drafting while the target verifies, on models that take no time."""

from __future__ import annotations

from typing import Any

import pytest
from command_line import Duotail
from folder_models import FOLDER_TARGET

from engine.bench.shapes import SHAPES
from engine.machine.facts import Host, Machine

GIB = 2**30
SHAPE = ("--shape", "small", "--draft", "small", "--threads", "1", "--prompt-tokens", "40")
QUICK = ("bench", "duo", "--runs", "1", "--tokens", "12")
GPU = ("--simulate-gpu", "0.2")


@pytest.fixture(autouse=True)
def _small_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {"num_hidden_layers": 4, "hidden_size": 128, "intermediate_size": 320}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 2048}
    monkeypatch.setitem(SHAPES, "small", {**SHAPES["llama2-7b"], **changes, **heads})


def test_four_ways_to_write_the_same(duotail: Duotail) -> None:
    wishes = ("--acceptance", "0.8", "--second", "0.5", "--first-token", "80")
    done = duotail(*QUICK, *SHAPE, *GPU, *wishes, "--json")
    assert (done.code, done.err) == (0, "")
    report: dict[str, Any] = done.json
    assert report["exact"] is True
    assert report["plan"]["mode"] == "duo"
    assert report["plan"]["draft_device"] == "cpu"
    (row,) = report["rows"]
    ways = row["ways"]
    assert list(ways) == ["plain", "turns", "turns_on_accelerator", "parallel"]
    for way, found in ways.items():
        assert found["tokens_per_s"] > 0
        assert found["speedup"] == pytest.approx(
            found["tokens_per_s"] / ways["plain"]["tokens_per_s"]
        )
        if way == "plain":
            assert found["lanes"] is None
        else:
            assert set(found["lanes"]) == {
                *("overlap", "draft_idle", "verify_idle", "useful", "wasted")
            }
            assert all(0 <= share <= 1 for share in found["lanes"].values())
    for way in ("turns", "turns_on_accelerator"):
        assert ways[way]["lanes"]["overlap"] == 0
    assert min(row["t_verify_ms"].values()) > 0
    first = report["first_token"]
    assert first["prompt_tokens"] == 80
    assert all(seconds > 0 for seconds in first["seconds"].values())
    assert first["duo_to_plain"] == pytest.approx(
        first["seconds"]["duo"] / first["seconds"]["plain"]
    )
    assert first["duo_to_baseline"] == pytest.approx(
        first["seconds"]["duo"] / first["seconds"]["in_turns_there"]
    )


def test_a_target_as_slow_as_one_wishes(duotail: Duotail) -> None:
    """A row for every c; the draft beside the target would be as slow and is left out."""
    wishes = ("--c", "0.5,0.1", "--acceptance", "1", "--tokens", "96", "--json")
    report: dict[str, Any] = {}
    for _ in range(8):  # on a busy machine an answer may be over before its draft has begun
        done = duotail(*QUICK, *SHAPE, *GPU, *wishes)
        assert (done.code, done.err) == (0, "")
        report = done.json
        quick, slow = (row["t_verify_ms"]["1"] for row in report["rows"])
        drafted = all(row["simulated_speedup"] is not None for row in report["rows"])
        if drafted and quick < slow:
            break
    assert [row["wished_c"] for row in report["rows"]] == [0.5, 0.1]
    assert report["exact"] is True
    for row in report["rows"]:
        assert list(row["ways"]) == ["plain", "turns", "parallel"]
        assert row["measured_to_simulated"] == pytest.approx(
            row["ways"]["parallel"]["speedup"] / row["simulated_speedup"]
        )
    assert quick < slow


def test_models_from_folders(duotail: Duotail) -> None:
    """A trained pair, whose draft is right now and then."""
    done = duotail(*QUICK, "--model", FOLDER_TARGET, *GPU, "--json")
    assert (done.code, done.err) == (0, "")
    report: dict[str, Any] = done.json
    assert report["exact"] is True
    assert report["acceptance"] is None
    (row,) = report["rows"]
    assert row["simulated_speedup"] is None
    assert row["ways"]["turns"]["acceptance_length"] > 1


def test_a_table_for_people(duotail: Duotail) -> None:
    table = duotail(*QUICK, *SHAPE, *GPU, "--first-token", "60").out
    assert "in parallel" in table
    assert "first token behind 60 tokens" in table
    assert "texts equal" in table


def test_without_an_accelerator(duotail: Duotail, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = Machine(Host(1, 8 * GIB, 4 * GIB))
    monkeypatch.setattr("engine.loading.devices.probe_machine", lambda: bare)
    done = duotail(*QUICK, *SHAPE, "--json")
    assert done.code == 3
    assert "needs a graphics card" in done.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("--c", "0.1"),  # of what is not simulated
        (*GPU, "--c", "0"),
        (*GPU, "--shape", "nonsense"),
        (*GPU, "--draft", "dgf-1"),  # which needs what the target computes
        (*GPU, "--acceptance", "2"),
    ],
)
def test_what_cannot_be_measured(duotail: Duotail, arguments: tuple[str, ...]) -> None:
    assert duotail(*QUICK, *SHAPE, *arguments, "--json").code == 2
