"""Segments on a real device: the numbers of the CPU within fp16's rounding, and its memory.

Logits are compared in the norm of a row: fp16 products and keys move those of the small random
models by some 5e-3, hence 2e-2; a token is compared where it is ahead by more than that.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerated import AsPacked, accelerated
from comparing import apart
from full_models import RandomWeights, full_config
from stand_ins import Card
from stored_blocks import HALVES, random_rows, widened
from test_native_families import CASES, TOKENS
from test_one_arithmetic import after_commit_logits, chain_logits, prefilled, prompt, tree_logits
from tiny_models import decoder, write_model

from engine.backend.accelerator.device import TorchDevice
from engine.backend.accelerator.driver import Driver
from engine.backend.accelerator.matrix import DeviceMatrix
from engine.backend.accelerator.memory import DeviceAllocator
from engine.backend.accelerator.products import Products
from engine.backend.cpu import NATIVE_FORMATS
from engine.backend.decoder import Decoder
from engine.backend.ledger import Purpose, unlimited
from engine.backend.torch_cpu.segment import TorchCpuBackend
from engine.commands import WeightFormat
from engine.errors import OutOfMemory
from engine.model.families import open_config
from engine.model.weights.model_weights import ModelWeights

pytestmark = pytest.mark.gpu
TOLERANCE = 2e-2
MIB = 1 << 20


@pytest.fixture(scope="module")
def device(name: str) -> Iterator[TorchDevice]:
    opened = TorchDevice(name)
    yield opened
    opened.close()


def same_tokens(got: np.ndarray, expected: np.ndarray) -> None:
    """Where the best is clearly ahead."""
    second, first = np.partition(expected, -2, axis=1)[:, -2:].T
    clear = first - second > 2 * np.abs(got - expected).max(axis=1)
    assert clear.any()
    assert np.array_equal(got.argmax(axis=1)[clear], expected.argmax(axis=1)[clear])


@pytest.mark.parametrize(("family", "shape"), CASES, ids=[f"{f} {s}" for f, s in CASES])
def test_a_family_is_what_the_cpu_computes(
    tmp_path: Path, family: str, shape: dict[str, Any], device: TorchDevice
) -> None:
    folder = write_model(tmp_path, family, dtype=torch.bfloat16, **shape)
    ours, theirs = accelerated(folder, WeightFormat.STORED, device), decoder(folder)
    expected = theirs.forward(theirs.new_state(640), TOKENS, taps=(0,))
    got = ours.forward(ours.new_state(640), TOKENS, taps=(0,))
    assert apart(got.logits, expected.logits) < TOLERANCE
    assert apart(got.taps[0], expected.taps[0]) < TOLERANCE
    same_tokens(got.logits, expected.logits)


@pytest.mark.parametrize("fmt", [WeightFormat.Q4, WeightFormat.Q8])
def test_quantised_weights_are_the_native_ones(
    tmp_path: Path, fmt: WeightFormat, device: TorchDevice
) -> None:
    folder = write_model(tmp_path)
    config = open_config(folder)
    packed = AsPacked(config, ModelWeights.of_folder(config, folder), NATIVE_FORMATS[fmt])
    theirs = Decoder.build(config, packed, TorchCpuBackend())
    expected = theirs.forward(theirs.new_state(640), TOKENS).logits
    ours = accelerated(folder, fmt, device)
    got = ours.forward(ours.new_state(640), TOKENS).logits
    assert apart(got, expected) < TOLERANCE
    same_tokens(got, expected)


def test_every_feature(device: TorchDevice) -> None:
    config = full_config()
    weights = RandomWeights(config)
    theirs = Decoder.build(config, weights, TorchCpuBackend())
    ours = Decoder.build(config, weights, device.backend(WeightFormat.STORED, "target"))
    expected = theirs.forward(theirs.new_state(640), TOKENS[:70]).logits
    got = ours.forward(ours.new_state(640), TOKENS[:70]).logits
    distance = np.linalg.norm(got - expected, axis=1) / np.linalg.norm(expected, axis=1)
    assert np.quantile(distance, 0.7) < TOLERANCE, "where no choice of experts was turned"


@pytest.mark.parametrize("kind", list(HALVES))
def test_numbers_are_ggmls_bit_for_bit(kind: str, name: str) -> None:
    driver = Driver(name)
    matrix = DeviceMatrix.empty(kind, 48, 768, DeviceAllocator(driver, unlimited()))
    stored = random_rows(kind, 48, 768)
    matrix.fill(0, stored, "w")
    got = torch.empty(48, 768, device=driver.device)
    Products(driver).look_up(matrix, torch.arange(48, device=driver.device), got)
    expected = widened(stored, kind)
    assert np.array_equal(got.cpu().numpy().view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("family", ["llama", "qwen3_moe"])
def test_rows_of_all_small_buckets_are_the_same(
    family: str, tmp_path: Path, device: TorchDevice
) -> None:
    """Up to 64 rows: fixed tiles, bit for bit as far as the device's products keep their order."""
    model = accelerated(write_model(tmp_path, family), WeightFormat.Q8, device)
    path = prompt(model, 12)[::-1]
    state = prefilled(model, 64)
    chain = chain_logits(model, state, path)
    for shape in (tree_logits, after_commit_logits):
        got = shape(model, state, path)
        assert apart(got, chain) < 1e-3, shape.__name__
        same_tokens(got, chain)
    alone = chain_logits(model, state, path)
    assert np.array_equal(alone, chain), "the same forward twice"
    for rows in (1, 2, 4, 8, 16, 32, 64):
        company = [path[0], *([7] * (rows - 1))]
        together = model.forward(state, company, [-1] * rows).logits[0].copy()
        state.discard()
        assert apart(together[None], chain[:1]) < 1e-3, rows


def test_prefill_in_any_chunks(tmp_path: Path, device: TorchDevice) -> None:
    """More than 64 rows are multiplied in one product, so equality is not promised."""
    model = accelerated(write_model(tmp_path), WeightFormat.Q8, device)
    path = prompt(model, 12)[::-1]
    results = [chain_logits(model, prefilled(model, chunk), path) for chunk in (1, 7, 64, 512)]
    for got in results[1:]:
        assert apart(got, results[0]) < TOLERANCE
        same_tokens(got, results[0])


# -- memory ----------------------------------------------------------------------------------


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Some 40 MB in 8 bits: enough to see beside what an allocator rounds up."""
    shape = {"hidden_size": 1024, "intermediate_size": 3072, "num_attention_heads": 16}
    return write_model(tmp_path, num_key_value_heads=8, **shape)


def test_torch_holds_what_the_ledger_says(card: Card, large: Path, name: str) -> None:
    device = TorchDevice(name)
    before = device.counters()
    model = accelerated(large, WeightFormat.Q8, device)
    state = model.new_state(4096)
    kept = {Purpose.WEIGHTS, Purpose.KV}
    lines = [line for line in device.ledger.lines() if line.owner == "target"]
    entered = sum(line.nbytes for line in lines if line.purpose in kept)
    grown = device.counters().allocated - before.allocated
    if card.real:  # nobody counts the tensors on torch's "cpu" device
        assert entered == pytest.approx(grown, rel=0.05)
    model.forward(state, TOKENS * 3)
    state.discard()
    model.forward(state, [5] * 64, [-1] * 64)
    held = sum(line.nbytes for line in device.ledger.lines() if line.purpose != Purpose.RUNTIME)
    assert device.counters().allocated <= held
    assert device.counters().reserved <= device.ledger.held
    del model, state
    gc.collect()
    assert device.counters().allocated <= before.allocated + 2 * MIB
    device.close()
    assert device.ledger.held == 0


def test_a_budget_is_kept(large: Path, name: str) -> None:
    probe = TorchDevice(name)
    accelerated(large, WeightFormat.Q8, probe)
    peak = probe.ledger.peak
    probe.close()
    gc.collect()
    device = TorchDevice(name, peak - 20 * MIB)
    with pytest.raises(OutOfMemory, match="do not fit into the budget"):
        accelerated(large, WeightFormat.Q8, device)
    gc.collect()
    assert device.counters().allocated <= device.ledger.held
    device.close()


def test_a_full_device_is_told_in_words(
    card: Card, name: str, large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = TorchDevice(name)
    model = accelerated(large, WeightFormat.Q8, device)
    with monkeypatch.context() as patch:
        if not card.real:
            patch.setattr(torch, "zeros", _full)
        with pytest.raises(OutOfMemory, match="no memory left"):
            model.new_state(1 << 28)
    gc.collect()
    model.forward(model.new_state(64), [5, 6, 7])
    del model
    device.close()


def _full(*_shape: object, **_options: object) -> None:
    raise torch.OutOfMemoryError("out of memory")
