"""`duotail bench decode|verify|prefill`."""

from __future__ import annotations

import json

import pytest
from stopwatch import least

from engine.bench.shapes import shape
from engine.cli import main
from engine.errors import UserFixable
from engine.plan.footprint import weight_count


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert main(["bench", *arguments, "--runs", "3", "--json"]) == 0
    printed: dict[str, object] = json.loads(capsys.readouterr().out)
    return printed


@pytest.mark.release(reason="a stopwatch")
def test_plain_decoding_speed(capsys: pytest.CaptureFixture[str]) -> None:
    def seconds_per_token() -> float:
        printed = output(capsys, "decode", "--threads", "1", "--format", "q4_0")
        assert printed["runs"] == 3
        assert isinstance(printed["tokens_per_s"], float)
        return 1 / printed["tokens_per_s"]

    assert least(seconds_per_token, 1 / 50) < 1 / 50


@pytest.mark.release(reason="a stopwatch")
def test_verification_by_rows(capsys: pytest.CaptureFixture[str]) -> None:
    def ratio() -> float:
        printed = output(capsys, "verify")
        assert printed["n"] == [1, 2, 4, 5, 8, 16]
        times = printed["ms"]
        assert isinstance(times, list)
        assert len(times) == 6
        assert times[0] > 0
        return times[0] / times[-1]

    assert least(ratio, 1) < 1, "one row takes less than sixteen"


@pytest.mark.release(reason="a stopwatch")
def test_prefill_is_faster_than_decoding(capsys: pytest.CaptureFixture[str]) -> None:
    def ratio() -> float:
        decode, prefill = output(capsys, "decode"), output(capsys, "prefill")
        speeds = decode["tokens_per_s"], prefill["tokens_per_s"]
        assert isinstance(speeds[0], float)
        assert isinstance(speeds[1], float)
        return speeds[0] / speeds[1]

    assert least(ratio, 1) < 1


def test_what_is_absent_or_unknown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUOTAIL_PEER_PYTHON", "/no/such/python")
    assert main(["bench", "decode", "--peer", "llama.cpp"]) == 3
    assert main(["bench", "decode", "--shape", "nonsense"]) == 2
    assert "qwen2.5-1.5b" in capsys.readouterr().err


def test_formats_of_shapes_and_of_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "decode", "--format", "q4_k_m"]) == 2
    assert "q8_0" in capsys.readouterr().err


def test_shapes_that_are_not_there() -> None:
    with pytest.raises(UserFixable, match="no shape"):
        shape("gpt-5")


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("qwen2.5-0.5b", 0.494),
        ("qwen2.5-1.5b", 1.544),
        ("qwen2.5-7b", 7.616),
        ("qwen3-0.6b", 0.596),
        ("qwen3-1.7b", 1.721),
        ("qwen3-4b", 4.022),
        ("qwen3-8b", 8.191),
        ("qwen3-30b-a3b", 30.532),
        ("qwen3.5-27b", 26.896),
        ("qwen3.5-35b-a3b", 34.661),
        ("llama2-7b", 6.738),
        ("llama3.1-8b", 8.030),
        ("llama3.2-1b", 1.236),
        ("llama3.2-3b", 3.213),
        ("smollm2-1.7b", 1.711),
        ("gemma3-1b", 1.000),
        ("gemma3-4b", 3.880),
        ("phi4-mini", 3.836),
        ("gpt-oss-20b", 20.915),
    ],
)
def test_shapes_have_the_published_number_of_weights(name: str, billions: float) -> None:
    assert weight_count(shape(name)) / 1e9 == pytest.approx(billions, abs=0.001)


def test_our_side_alone_in_a_short_context(capsys: pytest.CaptureFixture[str]) -> None:
    few = ("--threads", "1", "--context", "24", "--runs", "1", "--json")
    for arguments, signature in (
        (("decode", "--format", "f32"), "f32"),
        (("prefill", "--format", "q8_0"), "q8"),
    ):
        assert main(["bench", *arguments, *few]) == 0
        printed = json.loads(capsys.readouterr().out)
        assert printed["context"] == 24
        assert printed["tokens_per_s"] > 0
        assert signature in printed["signature"]
        assert "peer" not in printed


def test_a_shape_beside_and_behind_kept_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    shapes = ("--shape", "llama-68m:1", "--beside", "LLAMA-68m:2", "--kept")
    few = ("--threads", "1", "--context", "8", "--runs", "1", "--json")
    assert main(["bench", "verify", *shapes, *few]) == 0
    printed = json.loads(capsys.readouterr().out)
    kinds = ["ms", "one_kept_ms", "all_kept_ms"]
    named = [*kinds, *(f"beside_{kind}" for kind in kinds)]
    assert set(printed) == {"n", *named, "context", "signature"}
    assert all(len(printed[name]) == len(printed["n"]) for name in named)


@pytest.mark.parametrize(
    "name", [f"qwen3.5-{size}" for size in ("0.8b", "2b", "4b", "27b", "35b-a3b")]
)
def test_a_twin_without_states_has_as_many_bytes(name: str) -> None:
    twin = shape(f"{name}-attending")
    assert not twin.recurrent
    assert weight_count(twin) == pytest.approx(weight_count(shape(name)), rel=0.002)


def test_the_first_blocks_of_a_shape() -> None:
    assert shape("qwen3.5-27b:8").blocks == shape("qwen3.5-27b").blocks[:8]
    for blocks in ("0", "65", "x"):
        with pytest.raises(UserFixable, match=f"no blocks “{blocks}”"):
            shape(f"qwen3.5-27b:{blocks}")
