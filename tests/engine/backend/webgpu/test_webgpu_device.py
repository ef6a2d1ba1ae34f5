"""A WebGPU device: its ledger counts every buffer, refuses in words, and a lost one is told."""

from __future__ import annotations

import gc
from pathlib import Path
from time import perf_counter

import numpy as np
import pytest
from hybrid_models import EXPERTS, write_hybrid
from on_adapter import NAME, on_adapter, shared_device
from tiny_models import write_model

from engine.backend.decoder import MAX_TREE
from engine.backend.ledger import Account, Purpose
from engine.backend.prefix_cache import PrefixCache
from engine.backend.step import CHUNK
from engine.backend.webgpu.device import WebGpuDevice
from engine.backend.webgpu.matrix import upload
from engine.backend.webgpu.sizes import (
    RUNTIME,
    UNIFORMS,
    buffers,
    cache_bytes,
    segment_bytes,
    table_bytes,
)
from engine.commands import WeightFormat
from engine.errors import Absent, DeviceLost, OutOfMemory, UserFixable
from engine.model.families import open_config


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("llama"), num_hidden_layers=2)


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_hybrid(tmp_path_factory.mktemp("hybrid"), **EXPERTS)


@pytest.mark.parametrize("name", ["llama", "hybrid"])
def test_what_is_held_is_what_is_planned_and_what_wgpu_was_asked_for(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder: Path = request.getfixturevalue(name)
    device, made = WebGpuDevice(NAME), list[int]()
    gpu = device.gpu
    assert gpu is not None
    create = gpu._device.create_buffer

    def counted(*, size: int, usage: int) -> object:
        made.append(size)
        return create(size=size, usage=usage)

    monkeypatch.setattr(gpu._device, "create_buffer", counted)
    config = open_config(folder)
    model = on_adapter(folder, WeightFormat.Q8, device)
    state = model.new_state(300)
    slots = 300 + MAX_TREE
    model.forward(state, [5, 6, 7])
    held = {line.purpose: line.nbytes for line in device.ledger.lines() if line.owner == "target"}
    assert held[Purpose.WEIGHTS] == model.weight_bytes
    assert held[Purpose.KV] == cache_bytes(config, range(config.num_layers), slots)
    planned = segment_bytes(config, range(config.num_layers), slots)
    assert planned - UNIFORMS < held[Purpose.WORKSPACE] <= planned
    # Buffers for one chunk of keys were there first, and went before those of the state came.
    blocks = range(config.num_layers)
    first = sum(buffers(config, len(blocks), CHUNK, head=True).values())
    first += table_bytes(config, blocks, CHUNK)
    assert sum(made) == device.ledger.held - RUNTIME + first
    del model, state
    gc.collect()
    left = sum(line.nbytes for line in device.ledger.lines() if line.owner == "target")
    assert left <= UNIFORMS
    device.close()
    assert device.ledger.held == 0
    with pytest.raises(ValueError, match="webgpu:0 is closed"):
        on_adapter(folder, WeightFormat.Q8, device)


def test_the_devices_own_clock_tells_when_it_computed(llama: Path) -> None:
    device, model = shared_device(), on_adapter(llama)
    state = model.new_state(64)
    model.forward(state, [5, 6, 7])  # compiles
    device.transfers.take(perf_counter())
    begin = perf_counter()
    model.forward(state, [8], taps=(0, 1))  # in several compute passes
    end = perf_counter()
    there, back = device.transfers.take(end)
    assert begin <= there.start < there.end < back.start <= back.end <= end


def test_a_budget_is_refused_in_words(llama: Path) -> None:
    device = WebGpuDevice(NAME, budget=RUNTIME + 400_000, label="A card")
    with pytest.raises(OutOfMemory, match="A card"):
        on_adapter(llama, WeightFormat.Q8, device)
    gc.collect()
    assert device.ledger.held <= RUNTIME + UNIFORMS


def test_a_lost_device_is_told_and_can_be_opened_again(llama: Path) -> None:
    device = WebGpuDevice(NAME, label="A card")
    model = on_adapter(llama, WeightFormat.Q8, device)
    state = model.new_state(64)
    before = model.forward(state, [5]).logits.copy()
    state.discard()
    assert device.gpu is not None
    device.gpu._device.destroy()
    for _ in range(2):
        with pytest.raises(DeviceLost, match="A card stopped responding"):
            model.forward(state, [5])
        state.discard()
    with pytest.raises(DeviceLost):
        model.new_state(64)
    device.close()
    again = on_adapter(llama, WeightFormat.Q8, WebGpuDevice(NAME))
    assert np.array_equal(again.forward(again.new_state(64), [5]).logits, before)


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q8_0"])
def test_weights_that_are_no_numbers_are_refused(kind: str) -> None:
    gpu = shared_device().gpu
    assert gpu is not None
    if kind == "Q8_0":  # the scale of a block
        rows = np.zeros((3, 34), dtype=np.uint8)
        rows[2, :2] = np.array([np.nan], dtype=np.float16).view(np.uint8)
    else:
        wide = np.zeros((3, 32), dtype=np.float32)
        wide[2, 5] = np.inf
        rows = wide.astype(np.float16) if kind == "F16" else wide
        rows = wide.view(np.uint16)[:, 1::2] if kind == "BF16" else rows
    with pytest.raises(UserFixable, match="not numbers") as refused:
        upload(gpu, Account(shared_device().ledger, "test"), kind, (3, 32), [rows], "some.weight")
    assert "some.weight" in refused.value.details


def test_a_device_that_is_not_there_is_absent() -> None:
    with pytest.raises(Absent, match="webgpu:77"):
        WebGpuDevice("webgpu:77")


def test_an_edit_takes_over_the_keys_of_the_prefix(llama: Path) -> None:
    model = on_adapter(llama)
    states = PrefixCache(model, 300, 1 << 30)
    state = states.take([5, 6, 7])
    model.forward(state, [5, 6, 7], logit_rows=())
    state.commit(range(3))
    edited = states.take([5, 6, 9])
    assert edited is not state
    assert len(edited) == 2
    state.crop(2)
    got, expected = (model.forward(each, [9]).logits for each in (edited, state))
    assert np.array_equal(got, expected)
