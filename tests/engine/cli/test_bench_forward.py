"""`duotail bench decode|verify|prefill`."""

from __future__ import annotations

import json

import numpy as np
import pytest

from engine.backend.segment import Weights
from engine.bench.forward import decoder_for
from engine.bench.random_weights import RandomWeights
from engine.bench.shapes import draft_shape, shape
from engine.cli import main
from engine.commands import WeightFormat
from engine.errors import UserFixable
from engine.model.tensors import expected_tensors
from engine.plan.footprint import footprint, weight_count


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert main(["bench", *arguments, "--runs", "3", "--json"]) == 0
    printed: dict[str, object] = json.loads(capsys.readouterr().out)
    return printed


def test_plain_decoding_speed(capsys: pytest.CaptureFixture[str]) -> None:
    printed = output(capsys, "decode", "--threads", "1", "--format", "q4_0")
    assert printed["runs"] == 3
    assert isinstance(printed["tokens_per_s"], float)
    assert printed["tokens_per_s"] > 50


def test_verification_by_rows(capsys: pytest.CaptureFixture[str]) -> None:
    printed = output(capsys, "verify")
    assert printed["n"] == [1, 2, 4, 5, 8, 16]
    times = printed["ms"]
    assert isinstance(times, list)
    assert len(times) == 6
    assert 0 < times[0] < times[-1]


def test_prefill_is_faster_than_decoding(capsys: pytest.CaptureFixture[str]) -> None:
    decode, prefill = output(capsys, "decode"), output(capsys, "prefill")
    speeds = decode["tokens_per_s"], prefill["tokens_per_s"]
    assert isinstance(speeds[0], float)
    assert isinstance(speeds[1], float)
    assert speeds[1] > speeds[0]


def test_what_is_absent_or_unknown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUOTAIL_PEER_PYTHON", "/no/such/python")
    assert main(["bench", "decode", "--peer", "llama.cpp"]) == 3
    assert main(["bench", "decode", "--shape", "nonsense"]) == 2
    assert "qwen2.5-1.5b" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "billions"),
    [("qwen2.5-0.5b", 0.494), ("qwen2.5-1.5b", 1.544), ("qwen2.5-7b", 7.616), ("llama2-7b", 6.738)],
)
def test_shapes_have_the_published_number_of_weights(name: str, billions: float) -> None:
    assert weight_count(shape(name)) / 1e9 == pytest.approx(billions, abs=0.001)


def test_random_weights_fit_their_shape() -> None:
    config = draft_shape(shape("qwen2.5-0.5b"), hidden=64, layers=1)
    weights: Weights = RandomWeights(config)
    for tensor, extents in expected_tensors(config).items():
        assert weights.float32(tensor).shape == extents
    with pytest.raises(UserFixable, match="no shape"):
        shape("gpt-5")


@pytest.mark.parametrize("fmt", [WeightFormat.Q4, WeightFormat.BF16])
def test_random_models_compute_sane_numbers(fmt: WeightFormat) -> None:
    config = draft_shape(shape("llama2-7b"), hidden=192, layers=3)
    decoder = decoder_for(config, RandomWeights(config), fmt, threads=1)
    assert decoder.weight_bytes >= footprint(config, fmt).weight_bytes
    forward = decoder.forward(decoder.new_state(64), range(1, 33))
    assert np.isfinite(forward.logits).all()
    assert 0.3 < forward.logits.std() < 3
    assert len(set(forward.logits.argmax(axis=1))) > 8
