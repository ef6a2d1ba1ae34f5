"""What a shape costs on one device, and what is asked of it: WebGPU's and torch's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from stopwatch import least

from engine.backend.device import Device
from engine.backend.real_device import open_accelerator
from engine.backend.webgpu.adapters import adapters
from engine.bench.ceilings import ceilings, of_torch
from engine.bench.device_speed import (
    LoadTime,
    SpeedSizes,
    TimedPrefill,
    TimedRounds,
    measure_speed,
    read_bytes,
)
from engine.bench.shapes import draft_shape, shape
from engine.model.families import parse_config

SIZES = SpeedSizes((1, 2), (24, 48), (24,), seconds=0.0, least=1)
CONFIG = parse_config(
    {
        "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "vocab_size": 512,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 512, "tie_word_embeddings": False,
    }
)  # fmt: skip


@pytest.fixture(params=["webgpu:0", "cpu"])
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    """A software adapter, and torch's "cpu" device in the place of a card."""
    if request.param == "cpu":
        pytest.importorskip("torch")
    elif not adapters():
        pytest.skip("no WebGPU adapter here (Debian: mesa-vulkan-drivers)")
    opened = open_accelerator(request.param)
    yield opened
    opened.close()


def test_every_figure_is_told(device: Device) -> None:
    load, first, prompt, longer = measure_speed(device, CONFIG, "q4_0", SIZES)
    assert isinstance(load, LoadTime)
    assert 0 < load.read < load.weight_bytes
    assert isinstance(first, TimedRounds)
    assert isinstance(longer, TimedRounds)
    assert (first.context, longer.context) == (24, 48)
    assert (list(first.seconds), list(longer.seconds)) == ([1, 2], [1])
    assert isinstance(prompt, TimedPrefill)
    assert min(*first.seconds.values(), *longer.seconds.values(), prompt.seconds) > 0
    for work in (*first.work.values(), prompt.work):
        assert (
            work.runs == sum(each.runs for each in work.kernels.values()) > 0 or work.launches == 0
        )
        assert work.kernels


def test_a_round_through_webgpu_is_one_list_and_one_wait() -> None:
    """And its kernels' times add up to less than the round, of which they are a part."""
    if not adapters():
        pytest.skip("no WebGPU adapter here (Debian: mesa-vulkan-drivers)")
    device = open_accelerator("webgpu:0")
    _, rounds, *_ = measure_speed(device, CONFIG, "q8_0", SIZES)
    assert isinstance(rounds, TimedRounds)
    work = rounds.work[1]
    assert (work.launches, work.waits) == (1, 1)
    times = [each.seconds for each in work.kernels.values()]
    assert all(spent is not None and spent > 0 for spent in times)
    assert times == sorted(times, key=lambda spent: -(spent or 0))
    device.close()


def test_bytes_that_a_row_reads() -> None:
    """Without an embedding that only looks up; 18 bytes for 32 weights."""
    assert (
        read_bytes(CONFIG, "q4_0")
        == (2 * (256 * (256 + 128) * 2 + 3 * 256 * 512) + 512 * 256) * 18 // 32
    )
    tied = draft_shape(shape("llama2-7b"), 256, 1)
    assert read_bytes(tied, "q4_0") > 32000 * 256 * 18 // 32


def test_ceilings() -> None:
    def seconds_per_byte(name: str) -> float:
        return 1 / ceilings(name, 1 << 22).bytes_per_s

    assert least(lambda: seconds_per_byte("cpu"), 1e-8) < 1e-8
    if adapters():
        assert least(lambda: seconds_per_byte("webgpu:0"), 1e-7) < 1e-7
    pytest.importorskip("torch")
    assert least(lambda: 1 / of_torch("cpu", 1 << 22, 64).bytes_per_s, 1e-8) < 1e-8
    found = of_torch("cpu", 1 << 22, 64)
    assert set(found.flop_per_s) == {"float16", "bfloat16", "float32"}
