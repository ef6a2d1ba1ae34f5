"""What backends hold is entered before it is taken, refused beyond the budget, and given back."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from math import prod
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.backend.cpu import CpuDevice, native_is_built
from engine.backend.decoder import Decoder
from engine.backend.ledger import Account, Held, Ledger, Purpose
from engine.backend.native.cached_weights import CachedWeights
from engine.backend.native.library import Format
from engine.backend.native.packed_cache import PackedCache, settle
from engine.backend.native.segment import NativeBackend
from engine.backend.prefix_cache import PrefixCache
from engine.backend.transformers_cpu import TransformersSegment
from engine.commands import WeightFormat
from engine.errors import OutOfMemory
from engine.model.families import open_config
from engine.model.other_family import OtherConfig
from engine.model.tensors import expected_tensors
from engine.model.weights.model_weights import ModelWeights
from engine.model.weights.safetensors_folder import SafetensorsFolder
from tests.engine.tiny_models import write_model

needs_native = pytest.mark.skipif(not native_is_built(), reason="the native library is not built")
FORMATS = [pytest.param(WeightFormat.Q8, marks=needs_native), WeightFormat.F32]
Build = Callable[[CpuDevice, WeightFormat], Decoder]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "llama"
    write_model(folder)
    for file in folder.iterdir():
        os.utime(file, (1.6e9, 1.6e9))  # what has just changed is not kept packed
    return folder


@pytest.fixture(scope="module")
def build(folder: Path) -> Build:
    config = open_config(folder)

    def builder(device: CpuDevice, fmt: WeightFormat) -> Decoder:
        weights = ModelWeights.of_folder(config, folder)
        return Decoder.build(config, weights, device.backend(fmt, "target"))

    return builder


def lines_of(ledger: Ledger) -> dict[Purpose, Held]:
    return {line.purpose: line for line in ledger.lines()}


@pytest.mark.parametrize("fmt", FORMATS)
def test_everything_is_entered_and_goes_with_its_holder(build: Build, fmt: WeightFormat) -> None:
    device = CpuDevice()
    decoder = build(device, fmt)
    numbers = sum(map(prod, expected_tensors(decoder.config).values()))  # type: ignore[arg-type]
    held = lines_of(device.ledger)
    assert held.keys() == {Purpose.WEIGHTS, Purpose.WORKSPACE}
    least = numbers * (4 if fmt is WeightFormat.F32 else 1)
    assert least <= held[Purpose.WEIGHTS].nbytes < 1.3 * least
    state = decoder.new_state(500)
    kv = lines_of(device.ledger)[Purpose.KV]
    assert (kv.nbytes, kv.touched) == (state.nbytes, 0)
    decoder.forward(state, [1, 2, 3])
    kv = lines_of(device.ledger)[Purpose.KV]
    assert 0 < kv.touched <= kv.nbytes
    del state
    assert Purpose.KV not in lines_of(device.ledger)
    del decoder
    gc.collect()
    assert (device.ledger.held, device.ledger.lines()) == (0, ())


@pytest.mark.parametrize("fmt", FORMATS)
def test_a_refused_load_leaves_nothing_and_can_be_tried_again(
    build: Build, fmt: WeightFormat
) -> None:
    device = CpuDevice()
    decoder = build(device, fmt)
    needed = device.ledger.peak
    del decoder

    @settings(max_examples=8, deadline=None)
    @given(st.floats(0, 1, exclude_max=True))
    def refused(share: float) -> None:
        small = CpuDevice(int(needed * share))
        with pytest.raises(OutOfMemory):
            build(small, fmt)
        gc.collect()
        assert small.ledger.held == 0
        small.ledger.budget = needed
        assert build(small, fmt).weight_bytes > 0

    refused()


@pytest.mark.parametrize("fmt", FORMATS)
def test_a_refused_sequence_leaves_the_others(build: Build, fmt: WeightFormat) -> None:
    device = CpuDevice()
    decoder = build(device, fmt)
    state = decoder.new_state(200)
    before, wanted = device.ledger.held, decoder.forward(state, [1, 2, 3]).logits.copy()
    device.ledger.budget = before + state.nbytes // 2
    with pytest.raises(OutOfMemory, match="KV cache"):
        decoder.new_state(200)
    assert device.ledger.held == before
    state.discard()
    assert (decoder.forward(state, [1, 2, 3]).logits == wanted).all()
    del state
    assert len(decoder.new_state(200)) == 0


def test_a_pool_without_memory_for_another_sequence_goes_on_with_one(build: Build) -> None:
    device = CpuDevice()
    pool = PrefixCache(build(device, WeightFormat.F32), 200, budget_bytes=1 << 40)
    state = pool.take([1, 2, 3])
    state.adopt([1, 2, 3], [-1, 0, 1])
    state.commit(range(3))
    device.ledger.budget = device.ledger.held
    assert pool.take([1, 5]) is state
    pool.drop(state)
    del state
    device.ledger.budget = 0
    with pytest.raises(OutOfMemory):
        pool.take([1, 5])


@pytest.mark.parametrize("fmt", FORMATS)
def test_longer_rotations_replace_shorter_ones(build: Build, fmt: WeightFormat) -> None:
    device = CpuDevice()
    decoder = build(device, fmt)
    sizes = []
    for context in (100, 5000, 300):
        decoder.new_state(context)
        sizes.append(lines_of(device.ledger)[Purpose.WORKSPACE].nbytes)
    dim = decoder.config.rope.dim  # type: ignore[union-attr]
    factor = 2 if fmt is WeightFormat.F32 else 1  # there, halves are kept side by side
    assert sizes[1] - sizes[0] == pytest.approx(4900 * dim * 4 * factor, abs=3 * 4096)
    assert sizes[2] == sizes[1]


@needs_native
def test_mapped_weights_are_entered_as_such(folder: Path, tmp_path: Path) -> None:
    config, source = open_config(folder), SafetensorsFolder.open(folder)
    lines = []
    for _ in range(2):
        ledger = Ledger("cpu", "Memory")
        backend = NativeBackend(Format.Q4, account=Account(ledger, "target"))
        cache = PackedCache(tmp_path)
        with CachedWeights(source, source.files, Format.Q4, 100_000, cache=cache) as weights:
            decoder = Decoder.build(config, weights, backend)
        settle()
        lines.append(lines_of(ledger)[Purpose.WEIGHTS])
        assert lines[-1].mapped == decoder.mapped_bytes
        del decoder
    made, mapped = lines
    assert made.mapped == 0
    assert mapped.mapped > 0.9 * mapped.nbytes
    assert mapped.nbytes == pytest.approx(made.nbytes, rel=0.01)


def test_a_model_of_transformers_is_entered(folder: Path) -> None:
    device, source = CpuDevice(), SafetensorsFolder.open(folder)
    own = open_config(folder)
    numbers = 2 * own.num_layers * own.typical.kv_heads * own.typical.head_dim
    config = OtherConfig("llama", "LlamaForCausalLM", own.vocab_size, own.max_positions, numbers)
    account = Account(device.ledger, "target")
    names = source.names()
    segment = TransformersSegment(folder, config, source, names, torch.float32, account)
    held = lines_of(device.ledger)
    assert held[Purpose.WEIGHTS].nbytes == pytest.approx(segment.weight_bytes, rel=0.02)
    decoder = Decoder(config, [segment])
    state = decoder.new_state(100)
    decoder.forward(state, [1, 2, 3])
    state.commit(range(3))
    kv = lines_of(device.ledger)[Purpose.KV]
    assert kv.nbytes == state.nbytes
    assert kv.touched == 3 * config.kv_numbers_per_token * 4
    del segment, decoder, state
    gc.collect()
    assert device.ledger.held == 0
