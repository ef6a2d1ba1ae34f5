"""Every family on an accelerator's path: the model that torch's CPU path computes.

The weights are the same bits. Keys and values are fp16 here and fp32 there, which moves the logits
of these small random models by up to some 1e-3 of their norm: the tolerance is 4e-3, as for the
native path with fp16 weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from accelerated import AsPacked, accelerated
from comparing import apart
from full_models import RandomWeights, full_config
from stored_models import Stored, stored_config
from test_native_families import CASES, TOKENS
from tiny_models import decoder, write_model

from engine.backend.accelerator.device import TorchDevice
from engine.backend.accelerator.memory import DeviceCache
from engine.backend.cpu import NATIVE_FORMATS
from engine.backend.decoder import Decoder
from engine.backend.torch_cpu.segment import TorchCpuBackend
from engine.commands import WeightFormat
from engine.model.config import Activation
from engine.model.families import open_config
from engine.model.weights.model_weights import ModelWeights

QUANTISED = [WeightFormat.Q4, WeightFormat.Q8]


@pytest.mark.release(keep=3, reason="every family")
@pytest.mark.parametrize(("family", "shape"), CASES, ids=[f"{f} {s}" for f, s in CASES])
def test_a_family_is_what_the_cpu_computes(
    tmp_path: Path, family: str, shape: dict[str, Any]
) -> None:
    folder = write_model(tmp_path, family, **shape)
    ours, theirs = accelerated(folder), decoder(folder)
    expected = theirs.forward(theirs.new_state(640), TOKENS, taps=(0,))
    got = ours.forward(ours.new_state(640), TOKENS, taps=(0,))
    assert apart(got.logits, expected.logits) < 4e-3
    assert apart(got.hidden, expected.hidden) < 4e-3
    assert apart(got.taps[0], expected.taps[0]) < 4e-3


@pytest.mark.release(keep=2, reason="every format")
@pytest.mark.parametrize("fmt", QUANTISED)
@pytest.mark.parametrize("family", ["llama", "gemma2", "phi3"])
def test_quantised_weights_are_the_native_ones(
    tmp_path: Path, family: str, fmt: WeightFormat
) -> None:
    """Quantised by the native backend, widened there, and the same in torch's fp32."""
    folder = write_model(tmp_path, family)
    config = open_config(folder)
    packed = AsPacked(config, ModelWeights.of_folder(config, folder), NATIVE_FORMATS[fmt])
    theirs = Decoder.build(config, packed, TorchCpuBackend())
    ours = accelerated(folder, fmt)
    expected = theirs.forward(theirs.new_state(640), TOKENS).logits
    assert apart(ours.forward(ours.new_state(640), TOKENS).logits, expected) < 4e-3
    assert ours.signature == f"torch-cpu:{'q4' if fmt is WeightFormat.Q4 else 'q8'}/kv-f16"


class Untied(RandomWeights):
    """No two experts are alike."""

    def float32(self, name: str) -> Any:
        values = super().float32(name)
        if ".router." in name:
            values[4] = -values[4]
        return values


@pytest.mark.release(keep=1, reason="every feature")
@pytest.mark.parametrize(
    ("activation", "fmt"),
    [
        ("silu", WeightFormat.STORED),
        ("gelu_tanh", WeightFormat.BF16),
        ("swiglu_oai", WeightFormat.STORED),
        ("swiglu_oai", WeightFormat.Q8),
    ],
)
def test_every_feature_is_what_torch_computes(activation: Activation, fmt: WeightFormat) -> None:
    """In sizes that divide by nothing, with keys and values in fp32 on both sides.

    A turned choice of experts changes every later row, so none may hang on the last bits: those of
    keys in fp16, or of two experts that tie, whose sums a processor may form in two orders.
    """
    config = full_config(activation)
    weights = Untied(config)
    native = NATIVE_FORMATS.get(fmt)
    reference = weights if native is None else AsPacked(config, weights, native)
    theirs = Decoder.build(config, reference, TorchCpuBackend())
    ours = Decoder.build(config, weights, TorchDevice("cpu").backend(fmt, "target"))
    expected = theirs.forward(theirs.new_state(640), TOKENS[:70]).logits
    state = ours.new_state(640)
    for cache in state.caches:
        assert isinstance(cache, DeviceCache)
        cache._data = cache._data.float()
    assert apart(ours.forward(state, TOKENS[:70]).logits, expected) < 1e-4


def test_a_model_of_stored_formats() -> None:
    config = stored_config()
    weights, device = Stored(config), TorchDevice("cpu")
    ours, theirs = (
        Decoder.build(config, weights, device.backend(fmt, "target"))
        for fmt in (WeightFormat.STORED, WeightFormat.F32)
    )
    expected = theirs.forward(theirs.new_state(128), TOKENS).logits.copy()
    assert apart(ours.forward(ours.new_state(128), TOKENS).logits, expected) < 1e-3
    assert ours.weight_bytes < theirs.weight_bytes / 4
    assert "q4_k" in ours.signature
    assert "mxfp4" in ours.signature
