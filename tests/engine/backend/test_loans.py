"""What a draft borrows of its target: one matrix on a device, in the target's own type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from full_models import RandomWeights
from head_models import small_target
from simulated_models import instant

from engine.backend.accelerator.device import TorchDevice
from engine.backend.cpu import CpuDevice, native_is_built
from engine.backend.decoder import Decoder
from engine.backend.device import Device
from engine.backend.ledger import Purpose
from engine.backend.segment import Backend
from engine.backend.shared import NO_LOAN, Lent, Loan
from engine.backend.simulated.device import SimulatedDevice
from engine.commands import WeightFormat
from engine.model.tensors import EMBEDDING, HEAD
from engine.model.weights.readable import Floats

pytestmark = pytest.mark.skipif(not native_is_built(), reason="the native library is not built")

TARGET = small_target()
DRAFT = replace(TARGET, blocks=TARGET.blocks[:1])
DEVICES: dict[str, Callable[[], Device]] = {
    "cpu": CpuDevice,
    "simulated": lambda: SimulatedDevice(instant()),
    "torch": lambda: TorchDevice("cpu"),
}


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> Device:
    return DEVICES[request.param]()


def held(device: Device) -> dict[str, int]:
    """Bytes of weights by owner."""
    lines = device.ledger.lines()
    return {line.owner: line.nbytes for line in lines if line.purpose is Purpose.WEIGHTS}


def logits(decoder: Decoder) -> Floats:
    return np.array(decoder.forward(decoder.new_state(8), [3, 300, 5]).logits)


def draft(device: Device, loan: Loan) -> Decoder:
    return Decoder.build(
        DRAFT, RandomWeights(DRAFT), device.backend(WeightFormat.Q8, "draft", loan)
    )


def lent(kind: str) -> dict[str, Lent]:
    return {name: Lent(name, kind) for name in (EMBEDDING, HEAD)}


@pytest.mark.release(keep=4, reason="every format")
@pytest.mark.parametrize(
    ("fmt", "kind"),
    [
        (WeightFormat.Q4, "Q4_0"),
        (WeightFormat.Q8, "Q8_0"),
        (WeightFormat.BF16, "BF16"),
        (WeightFormat.STORED, "BF16"),
    ],
)
def test_a_matrix_is_held_once(device: Device, fmt: WeightFormat, kind: str) -> None:
    lender = device.backend(fmt, "target")
    target = Decoder.build(TARGET, RandomWeights(TARGET), lender)
    before = held(device)["target"]
    with_lender = draft(device, Loan(lent(kind), lender))
    shared = held(device)
    assert shared["target"] == before
    assert with_lender.weight_bytes <= shared["draft"]
    guess = logits(with_lender)
    del with_lender
    apart = draft(device, Loan(lent(kind)))  # as where the target lies elsewhere
    np.testing.assert_array_equal(guess, logits(apart))
    two = held(device)["draft"] - shared["draft"]
    assert two >= 2 * TARGET.vocab_size * TARGET.hidden_size * {"Q4_0": 0.5, "Q8_0": 1}.get(kind, 2)
    own = draft(device, NO_LOAN)
    assert np.array_equal(logits(own), guess) == (kind == "Q8_0")
    assert target.weight_bytes


def test_an_output_matrix_that_is_the_targets_embedding(device: Device) -> None:
    tied = replace(TARGET, tie_word_embeddings=True)
    lender = device.backend(WeightFormat.Q8, "target")
    target = Decoder.build(tied, RandomWeights(tied), lender)
    both = {EMBEDDING: Lent(EMBEDDING, "Q8_0"), HEAD: Lent(EMBEDDING, "Q8_0")}
    one, none = draft(device, Loan(both, lender)), draft(device, NO_LOAN)
    assert one.weight_bytes < none.weight_bytes
    hidden = target.forward(target.new_state(8), [3, 300, 5]).hidden
    assert hidden.shape == (3, TARGET.hidden_size)
    assert not np.array_equal(logits(one), logits(none))  # another matrix


def test_what_is_lent_outlives_the_backend(device: Device) -> None:
    """A backend goes when its model is compiled, and a target before its draft at the latest."""
    backends: list[Backend] = [device.backend(WeightFormat.Q8, "target")]
    target = Decoder.build(TARGET, RandomWeights(TARGET), backends[0])
    guesser = draft(device, Loan(lent("Q8_0"), backends.pop()))
    guess = logits(guesser)
    del target
    np.testing.assert_array_equal(logits(guesser), guess)
