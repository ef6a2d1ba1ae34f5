"""The arithmetic of real devices, fp16 products, as far as torch's "cpu" device has it.

fp16 rounds inputs and weights to 11 bits, where the native path rounds inputs to 8: logits of the
small random models move by up to some 5e-3 of their norm. The tolerance is 1e-2.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from accelerated import accelerated
from comparing import apart
from stored_blocks import random_rows, widened
from test_native_families import TOKENS
from tiny_models import decoder, write_model

from engine.backend.accelerator.device import TorchDevice
from engine.backend.accelerator.driver import Driver
from engine.backend.accelerator.matrix import DeviceMatrix
from engine.backend.accelerator.memory import DeviceAllocator
from engine.backend.accelerator.products import Products
from engine.backend.ledger import unlimited
from engine.commands import WeightFormat


def halves() -> TorchDevice:
    return TorchDevice("cpu", halves=True)


@pytest.mark.parametrize("family", ["llama", "gemma2", "phi3", "qwen2", "qwen3"])
def test_a_family_in_halves(tmp_path: Path, family: str) -> None:
    folder = write_model(tmp_path, family, dtype=torch.bfloat16)
    backend = halves()
    ours, theirs = accelerated(folder, WeightFormat.STORED, backend), decoder(folder)
    expected = theirs.forward(theirs.new_state(640), TOKENS).logits
    got = ours.forward(ours.new_state(640), TOKENS).logits
    assert 1e-6 < apart(got, expected) < 1e-2
    margin = np.sort(expected, axis=1)[:, -1] - np.sort(expected, axis=1)[:, -2]
    clear = margin > 2 * np.abs(got - expected).max(axis=1)
    assert clear.mean() > 0.9
    assert np.array_equal(got.argmax(axis=1)[clear], expected.argmax(axis=1)[clear])


@pytest.mark.parametrize("kind", ["Q4_0", "Q6_K", "F32"])
def test_numbers_beyond_halves(kind: str) -> None:
    """What a feed-forward's last product gets may be any size."""
    products = Products(Driver("cpu"), halves=True)
    stored = random_rows("Q6_K" if kind == "F32" else kind, 32, 256)
    numbers = widened(stored, "Q6_K" if kind == "F32" else kind)
    matrix = DeviceMatrix.empty(kind, 32, 256, DeviceAllocator(Driver("cpu"), unlimited()))
    matrix.fill(0, numbers if kind == "F32" else stored, "w")
    x = np.random.default_rng(1).standard_normal((16, 256)).astype(np.float32)
    x *= np.float32(10.0) ** np.arange(-20, 12, 2, dtype=np.float32)[:, None]
    x[3] = 0
    got = torch.empty(16, 32)
    products.multiply(torch.from_numpy(x), matrix, got, large=True)
    expected = x.astype(np.float64) @ numbers.T
    error = np.abs(got.numpy() - expected).max(axis=1)
    assert (error <= 2e-3 * np.abs(expected).max(axis=1)).all()
