"""A simulated accelerator that verifies as slowly as it is told."""

from __future__ import annotations

import pytest

from engine.backend.decoder import Decoder
from engine.backend.simulated.device import SimulatedDevice
from engine.backend.simulated.spec import SimulatedSpec
from engine.backend.tree import chain
from engine.bench.declaring import FLAT_ROWS, declare_verify
from engine.bench.random_model import RandomModel
from engine.bench.shapes import draft_shape, shape
from engine.commands import WeightFormat
from engine.request import SamplingParams
from engine.speculative.decoding import Decoding
from engine.speculative.sampler import Sampler

CONTEXT = 48
PROMPT = [token % 97 for token in range(CONTEXT)]
Pair = tuple[SimulatedDevice, Decoder]


@pytest.fixture(scope="module")
def pair() -> Pair:
    """A device of usual speed, and a model on it."""
    model = RandomModel("target", draft_shape(shape("llama2-7b"), 64, 2), "q4_0")
    device = SimulatedDevice(SimulatedSpec.of(1 << 27))
    backend = device.backend(WeightFormat.STORED, "target")
    return device, Decoder.build(model.config, model.weights(), backend)


def verified(pair: Pair, rows: int) -> float:
    """Declared seconds of a verification behind the context; nothing is really waited for."""
    device, target = pair
    decoding = Decoding(target, target.new_state(CONTEXT + rows), PROMPT, Sampler(SamplingParams()))
    for _ in decoding.prefill():
        pass
    before = device.processor.declared_s
    decoding.verify(chain(PROMPT[-1], [5] * (rows - 1), [-1.0] * (rows - 1)))
    return device.processor.declared_s - before


@pytest.mark.parametrize("seconds", [1e-3, 4e-3])
def test_declared_as_wished(pair: Pair, seconds: float) -> None:
    device, target = pair
    memory = device.spec.memory
    declare_verify(device, target, seconds, CONTEXT)
    assert verified(pair, 1) == pytest.approx(seconds, rel=0.01)
    assert verified(pair, FLAT_ROWS) == pytest.approx(seconds, rel=0.05)
    assert device.spec.memory == memory


def test_a_new_declaration_counts_at_once(pair: Pair) -> None:
    """Also for what has been computed before, whose time is kept by its rows."""
    device, target = pair
    declare_verify(device, target, 4e-3, CONTEXT)
    slow = verified(pair, 1)
    declare_verify(device, target, 1e-3, CONTEXT)
    assert verified(pair, 1) == pytest.approx(slow / 4, rel=0.01)
