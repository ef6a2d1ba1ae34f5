"""`duotail bench formats`."""

from __future__ import annotations

import pytest
from command_line import Duotail

from engine.bench.recipes import UNIFORM
from engine.bench.shapes import SHAPES
from engine.model.gguf.header import KIND_OF_NAME

SMALL = {"num_hidden_layers": 1, "hidden_size": 256, "intermediate_size": 512, "vocab_size": 512}
ODD = {"intermediate_size": 320}
QUICK = ("bench", "formats", "--shape", "small", "--threads", "1", "--runs", "1")


@pytest.fixture(autouse=True)
def _small_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    heads = {"num_attention_heads": 4, "num_key_value_heads": 4}
    monkeypatch.setitem(SHAPES, "small", {**SHAPES["bench"], **SMALL, **heads})


def test_a_row_for_every_type(duotail: Duotail) -> None:
    report = duotail(*QUICK, "--json").json
    assert report["shape"] == "small"
    assert list(report["formats"]) == list(UNIFORM)
    for name, row in report["formats"].items():
        assert list(row) == [
            "max_error", "bytes_per_weight", "ms_1", "ms_8", "ratio", "gb_per_s"
        ]  # fmt: skip
        assert row["ratio"] == pytest.approx(row["ms_8"] / row["ms_1"])
        assert row["gb_per_s"] > 0
        if row["max_error"] is not None:
            assert row["max_error"] == 0, name
            kind = KIND_OF_NAME[UNIFORM[name]]
            held = row["bytes_per_weight"] / (kind.nbytes / kind.numbers)
            assert 1 <= held <= 1.05, name  # and vectors in fp32


def test_a_type_that_no_matrix_can_have_has_no_error(
    duotail: Duotail, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SHAPES, "small", {**SHAPES["small"], "hidden_size": 192} | ODD)
    rows = duotail(*QUICK, "--formats", "q4_k,q8_0", "--json").json["formats"]
    assert rows["q4_k"]["max_error"] is None
    assert rows["q8_0"]["max_error"] == 0


def test_a_table_of_some(duotail: Duotail) -> None:
    table = duotail(*QUICK, "--formats", "q4_k,q8_0").out.splitlines()
    assert [line.split()[0] for line in table] == ["format", "q4_k", "q8_0"]
    assert duotail(*QUICK, "--formats", "q4_k,q9").code == 2
