"""The native path against transformers on every family, and against torch with every feature."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from full_models import RandomWeights, full_config, full_decoder
from native_models import native_decoder
from numpy.typing import NDArray
from tiny_models import FAMILIES, reference, write_model

from engine.backend.decoder import Decoder
from engine.backend.native.library import Format
from engine.backend.native.segment import NativeBackend
from engine.backend.torch_cpu.segment import TorchCpuBackend
from engine.model.config import Activation
from engine.model.weights.readable import Floats

TOKENS = np.random.default_rng(1).integers(3, 320, 90).tolist()
"""Longer than every window, and than a chunk of keys."""

ONE_CHOICE: dict[str, Any] = {"num_hidden_layers": 1}
"""Of experts: 16-bit keys turn a close one, and what follows is another text."""
NO_CHOICE: dict[str, dict[str, Any]] = {
    "qwen3_moe": {"num_experts": 3, "num_experts_per_tok": 3},
    "gpt_oss": {"num_local_experts": 3, "num_experts_per_tok": 3},
}

CASES: list[tuple[str, dict[str, Any]]] = [
    *((family, {}) for family in FAMILIES if family not in NO_CHOICE),
    *((family, ONE_CHOICE) for family in NO_CHOICE),
    *NO_CHOICE.items(),
    ("qwen3_moe", {**ONE_CHOICE, "norm_topk_prob": False}),
    ("phi3", {"partial_rotary_factor": 0.5}),
    ("smollm3", {"num_hidden_layers": 4}),
    ("gemma2", {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0, "head_dim": 256}),
]


def apart(got: Floats, expected: NDArray[Any]) -> float:
    """Of the row that is worst."""
    distance = np.linalg.norm(got - expected, axis=1) / np.linalg.norm(expected, axis=1)
    return float(distance.max())


@pytest.mark.release(keep=6, reason="every family")
@pytest.mark.parametrize(("family", "shape"), CASES, ids=[f"{f} {s}" for f, s in CASES])
def test_a_family_is_what_transformers_computes(
    tmp_path: Path, family: str, shape: dict[str, Any]
) -> None:
    folder = write_model(tmp_path, family, **shape)
    with torch.no_grad():
        expected = reference(folder)(torch.tensor([TOKENS])).logits[0].numpy()
    model = native_decoder(folder, Format.F16)
    assert apart(model.forward(model.new_state(640), TOKENS).logits, expected) < 4e-3


@pytest.mark.parametrize("activation", ["silu", "gelu_tanh", "swiglu_oai"])
def test_every_feature_is_what_torch_computes(activation: Activation) -> None:
    config = full_config(activation)
    weights = RandomWeights(config)
    one, other = (
        Decoder.build(config, weights, backend)
        for backend in (NativeBackend(Format.F16), TorchCpuBackend())
    )
    tokens = TOKENS[:70]
    expected = other.forward(other.new_state(640), tokens).logits
    distance = np.linalg.norm(one.forward(one.new_state(640), tokens).logits - expected, axis=1)
    distance /= np.linalg.norm(expected, axis=1)
    assert np.quantile(distance, 0.7) < 4e-3, "where no choice of experts was turned"


def test_matrices_of_mixed_formats_are_the_same_model() -> None:
    """Some with one output are F16 and some BF16, and the weights are exact in both."""
    mixed, alike = full_decoder(None), full_decoder(Format.F16)
    assert mixed.signature == "cpu:bf16+f16/kv-f16"
    one, other = (model.forward(model.new_state(640), TOKENS).logits for model in (mixed, alike))
    assert np.array_equal(one, other)
