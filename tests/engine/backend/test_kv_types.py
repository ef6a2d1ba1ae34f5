"""Keys and values in 8 bits: their bytes, how near they come, and that types never mix."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from folder_models import FOLDER_TARGET
from full_models import RandomWeights
from head_models import small_target
from native_models import native_decoder
from test_one_arithmetic import prefilled, prompt

from engine.backend.accelerator.device import TorchDevice
from engine.backend.decoder import Decoder
from engine.backend.native.library import Format, library
from engine.backend.native.segment import NativeBackend, NativeSegment
from engine.backend.native.workspace import kv_token_bytes
from engine.bench.shapes import shape
from engine.commands import KvType, WeightFormat
from engine.model.config import ModelConfig
from engine.model.tensors import expected_tensors
from engine.model.weights import random_weights
from engine.model.weights.readable import Floats

_USUAL = shape("qwen2.5-0.5b")
_BLOCK = replace(_USUAL.typical, heads=6, kv_heads=2, inner=64)
SMALL = replace(_USUAL, hidden_size=96, vocab_size=100, blocks=(_BLOCK,) * _USUAL.num_layers)


def compiled(config: ModelConfig, kv: KvType) -> NativeSegment:
    weights = random_weights.RandomWeights(config, dict.fromkeys(expected_tensors(config), "F16"))
    backend = NativeBackend(None, kv=kv)
    return backend.compile(config, weights, range(config.num_layers), embed=True, head=True)


def logits(model: Decoder) -> np.ndarray:
    found: np.ndarray = model.forward(prefilled(model, 64), prompt(model, 12)).logits
    return found


@pytest.mark.parametrize("kv", KvType)
@pytest.mark.parametrize("dim", [16, 24, 48, 64, 80, 128])
def test_plans_know_what_the_library_takes(kv: KvType, dim: int) -> None:
    config = replace(SMALL, blocks=(replace(_BLOCK, head_dim=dim),) * 2)
    taken = library().dt_cache_bytes(compiled(config, kv).struct, 128)
    assert taken == 128 * 2 * kv_token_bytes(_BLOCK.kv_heads, dim, kv)


def test_8_bits_take_about_half_and_come_near() -> None:
    halves, bytes_ = (native_decoder(FOLDER_TARGET, Format.Q8, kv=kv) for kv in KvType)
    assert halves.signature == "cpu:q8/kv-f16"
    assert bytes_.signature == "cpu:q8/kv-q8"
    exact, near = logits(halves), logits(bytes_)
    error = np.linalg.norm(near - exact) / np.linalg.norm(exact)
    assert 0 < error < 0.02
    assert kv_token_bytes(8, 128, KvType.Q8) < 0.52 * kv_token_bytes(8, 128, KvType.F16)


class Changed(RandomWeights):
    """Values are nothing but this number."""

    value = 0.0

    def float32(self, name: str) -> Floats:
        found = super().float32(name)
        return np.full_like(found, self.value) if ".v_proj." in name else found


def changed(value: float, kv: KvType) -> np.ndarray:
    config = small_target()
    weights = Changed(config)
    object.__setattr__(weights, "value", np.float32(value))
    return logits(Decoder.build(config, weights, NativeBackend(Format.F32, kv=kv)))


def test_values_of_zero_are_zero_in_both_types() -> None:
    np.testing.assert_array_equal(changed(0.0, KvType.F16), changed(0.0, KvType.Q8))


def test_values_beyond_the_type_are_no_numbers() -> None:
    """So that an answer ends with words instead of going on from something else."""
    assert np.isnan(changed(3e36, KvType.Q8)).any()


def test_caches_of_different_types_do_not_mix() -> None:
    halves, bytes_ = (compiled(SMALL, kv).new_cache(64) for kv in KvType)
    with pytest.raises(TypeError):
        bytes_.copy_prefix(halves, 8)


def test_an_accelerator_keeps_its_halves() -> None:
    backend = TorchDevice("cpu").backend(WeightFormat.Q8, "target", kv=KvType.Q8)
    weights = random_weights.RandomWeights(SMALL, dict.fromkeys(expected_tensors(SMALL), "F16"))
    segment = backend.compile(SMALL, weights, range(1), embed=True, head=False)
    assert segment.signature.endswith("/kv-f16")
