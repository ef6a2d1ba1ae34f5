"""The ledger of an accelerator: refusals before torch is asked, and troubles in words."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerated import accelerated
from tiny_models import write_model

from engine.backend.accelerator import memory
from engine.backend.accelerator.device import SHARED, TorchDevice
from engine.backend.accelerator.driver import Driver, in_words
from engine.backend.accelerator.sizes import shared_bytes
from engine.backend.decoder import Decoder
from engine.backend.device import Device
from engine.backend.ledger import Held, Ledger, Purpose
from engine.backend.prefix_cache import PrefixCache
from engine.commands import WeightFormat
from engine.errors import DeviceLost, OutOfMemory

MIB = 1 << 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("llama"), hidden_size=256, intermediate_size=512)


def held(device: TorchDevice, purpose: Purpose, owner: str = "target") -> int:
    lines = {(line.owner, line.purpose): line for line in device.ledger.lines()}
    nothing = Held(owner, purpose, 0, 0)
    return lines.get((owner, purpose), nothing).nbytes


def test_everything_is_entered_and_given_back(folder: Path) -> None:
    device: Device = TorchDevice("cpu", label="A card")
    assert isinstance(device, TorchDevice)
    model = accelerated(folder, WeightFormat.Q4, device)
    assert held(device, Purpose.WEIGHTS) == model.weight_bytes
    state = model.new_state(300)
    assert held(device, Purpose.KV) == state.nbytes
    model.forward(state, [5, 6, 7])
    assert held(device, Purpose.WORKSPACE) > 0
    assert held(device, Purpose.WORKSPACE, SHARED) > shared_bytes()
    del state
    gc.collect()
    assert held(device, Purpose.KV) == 0
    del model
    gc.collect()
    assert {line.owner for line in device.ledger.lines()} == {SHARED}
    device.close()
    assert device.ledger.held == 0
    with pytest.raises(ValueError, match="closed"):
        device.backend(WeightFormat.Q4, "target")


def test_beyond_the_budget_torch_is_not_asked(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = TorchDevice("cpu")
    model = accelerated(folder, WeightFormat.Q4, probe)
    needed = probe.ledger.held

    device = TorchDevice("cpu", needed - model.weight_bytes // 2, label="A card")
    asked = torch.zeros

    def zeros(*shape: Any, **options: Any) -> torch.Tensor:
        assert device.ledger.held <= (device.ledger.budget or 0)
        return asked(*shape, **options)

    monkeypatch.setattr(memory.torch, "zeros", zeros)
    with pytest.raises(OutOfMemory, match=r"A card: .* GiB \(weights\) do not fit into the budget"):
        accelerated(folder, WeightFormat.Q4, device)
    gc.collect()
    assert held(device, Purpose.WEIGHTS) == 0
    assert device.ledger.peak <= (device.ledger.budget or 0)


def test_a_context_that_does_not_fit_is_refused_when_it_is_taken(folder: Path) -> None:
    probe = TorchDevice("cpu")
    accelerated(folder, WeightFormat.Q4, probe)
    device = TorchDevice("cpu", probe.ledger.peak + 64 * MIB)
    model = accelerated(folder, WeightFormat.Q4, device)
    with pytest.raises(OutOfMemory, match="KV cache"):
        model.new_state(1 << 20)
    model.forward(model.new_state(64), [5, 6, 7])


def test_a_budget_that_does_not_hold_torch_itself() -> None:
    with pytest.raises(OutOfMemory, match="workspace"):
        TorchDevice("cpu", MIB)


def refusing(*_args: object, **_options: object) -> torch.Tensor:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def test_a_full_device_says_what_was_needed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the budget had room: another program took the memory."""
    device = TorchDevice("cpu", label="A card")
    model = accelerated(folder, WeightFormat.Q4, device)
    monkeypatch.setattr(Driver, "free_and_total", lambda _self: (1 << 30, 8 << 30))
    before = device.ledger.held
    with monkeypatch.context() as patch:
        patch.setattr(memory.torch, "zeros", refusing)
        with pytest.raises(OutOfMemory, match="A card has no memory left") as caught:
            model.new_state(4096)
    others = 7 - before / 2**30
    assert f"1.00 GiB are free, other programs hold {others:.2f} GiB" in str(caught.value)
    assert "Tried to allocate" in caught.value.details
    del caught
    gc.collect()
    assert device.ledger.held == before


def test_a_full_device_in_a_forward(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = accelerated(folder, WeightFormat.Q4)
    state = model.new_state(64)
    with monkeypatch.context() as patch:
        patch.setattr(torch, "bmm", refusing)
        with pytest.raises(OutOfMemory):
            model.forward(state, [5, 6, 7])
    state.discard()
    model.forward(state, [5, 6, 7])


@pytest.mark.parametrize(
    "said",
    [
        "CUDA error: CUDA-capable device(s) is/are busy or unavailable",
        "CUDA error: uncorrectable ECC error encountered",
        "CUDA error: an illegal memory access was encountered",
        "HIP error: unspecified launch failure",
        "level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)",
        "CUDA error: unknown error",
    ],
)
def test_a_lost_device_is_told_from_a_bug(said: str) -> None:
    driver, ledger = Driver("cpu"), Ledger("cuda:0", "A card")
    with pytest.raises(DeviceLost, match="A card stopped responding") as caught:  # noqa: SIM117
        with in_words(driver, ledger):
            raise RuntimeError(said)
    assert caught.value.details == said


def test_a_bug_stays_a_bug() -> None:
    with (
        pytest.raises(RuntimeError, match="shapes cannot be multiplied"),
        in_words(Driver("cpu"), Ledger("cuda:0", "A card")),
    ):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied (1x2 and 3x4)")


def test_models_of_one_device_share_its_working_memory(folder: Path) -> None:
    device = TorchDevice("cpu")
    models: list[Decoder] = []
    shared = []
    for _ in range(2):
        models.append(accelerated(folder, WeightFormat.Q4, device))
        models[-1].new_state(256)
        shared.append(held(device, Purpose.WORKSPACE, SHARED))
    assert shared[0] == shared[1]


def test_an_edit_takes_over_the_keys_of_the_prefix(folder: Path) -> None:
    model = accelerated(folder)
    states = PrefixCache(model, 300, 1 << 30)
    old = [5 + number % 50 for number in range(80)]
    state = states.take(old)
    model.forward(state, old, logit_rows=())
    state.commit(range(80))
    edited = states.take([*old[:70], 3])
    assert edited is not state
    assert len(edited) == 70
    state.crop(70)
    got, expected = (model.forward(each, [3]).logits.copy() for each in (edited, state))
    assert np.array_equal(got, expected)
