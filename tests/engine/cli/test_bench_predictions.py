"""`duotail bench predictions`: every row is there, and memory is as the ledgers have it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import Duotail

from engine.bench.shapes import SHAPES
from engine.hardware.machine_file import write
from engine.machine.facts import CPU, Host, Machine
from engine.machine.speeds import DeviceSpeeds, ProductSpeed, Speeds

QUICK = ("bench", "predictions", "--tokens", "8", "--runs", "1", "--context", "16")


@pytest.fixture(autouse=True)
def _small_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {"num_hidden_layers": 2, "hidden_size": 128, "intermediate_size": 320}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    small = {**SHAPES["llama2-7b"], **changes, **heads}
    monkeypatch.setitem(SHAPES, "small", small)
    monkeypatch.setitem(SHAPES, "tied", {**small, "tie_word_embeddings": True})


@pytest.fixture
def hardware(tmp_path: Path) -> Path:
    """A machine of one core with speeds of its own."""
    product = ProductSpeed((1, 8), (4e9, 3e9))
    cpu = DeviceSpeeds(CPU, 8e9, {"Q4_0": product, "Q8_0": product}, 1e-5, 1e-5, attention=product)
    path = tmp_path / "machine.json"
    write(path, Machine(Host(1, 8 << 30, 4 << 30)), Speeds({CPU: cpu}, measured=True))
    return path


def test_every_case_has_its_row(duotail: Duotail, hardware: Path) -> None:
    done = duotail(
        *QUICK, "--shapes", "small,tied", "--modes", "plain,cpu", "--hardware", hardware, "--json"
    )
    assert (done.code, done.err) == (0, "")
    report: dict[str, Any] = done.json
    cases = [(row["shape"], row["plan"]["mode"]) for row in report["rows"]]
    assert cases == [("small", "plain"), ("small", "cpu"), ("tied", "plain"), ("tied", "cpu")]
    for row in report["rows"]:
        memory = row["memory"]["cpu"]
        assert memory["ledger"]["target"] == memory["predicted"]["target"]
        assert (memory["ledger"]["draft"] > 0) is (row["plan"]["mode"] == "cpu")
        assert memory["error"] == pytest.approx(
            memory["predicted"]["total"] / memory["ledger"]["total"] - 1
        )
        for speed in row["speeds"]:
            assert speed["error"] == pytest.approx(
                speed["predicted_tokens_per_s"] / speed["tokens_per_s"] - 1
            )


def test_layers_lie_where_they_were_asked_for(duotail: Duotail, hardware: Path) -> None:
    """Also on an accelerator, and memory there is as the ledger has it."""
    ask = ("--shapes", "tied", "--modes", "cpu", "--layers-on-gpu", "1,all")
    done = duotail(*QUICK, *ask, "--simulate-gpu", "1", "--hardware", hardware, "--json")
    assert (done.code, done.err) == (0, "")
    rows = done.json["rows"]
    assert [row["plan"]["layers_on_gpu"] for row in rows] == [0, 1, 2]
    assert [len(row["speeds"]) for row in rows] == [2, 2, 2]  # plain, and drafting
    assert [list(row["memory"]) for row in rows] == [
        ["cpu"], ["cpu", "simulated:0"], ["cpu", "simulated:0"]
    ]  # fmt: skip
    errors = [use["error"] for row in rows for use in row["memory"].values()]
    assert max(map(abs, errors)) == done.json["most_memory_error"]
    assert max(map(abs, errors)) < 0.1  # some megabytes of scratch, of a very small model


def test_a_table_for_people(duotail: Duotail, hardware: Path) -> None:
    table = duotail(*QUICK, "--shapes", "small", "--hardware", hardware).out
    assert "small" in table
    assert "0/2" in table


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--shapes", "nonsense"), 2),
        (("--formats", "q4_0,nonsense"), 2),
        (("--modes", "duo"), 2),
        (("--vram", "much"), 2),
        (("--shapes", "small", "--layers-on-gpu", "some"), 2),
        (("--shapes", "small", "--vram", "1"), 3),
    ],
)
def test_what_cannot_be_predicted(
    duotail: Duotail, hardware: Path, arguments: tuple[str, ...], code: int
) -> None:
    assert duotail(*QUICK, *arguments, "--hardware", hardware, "--json").code == code
