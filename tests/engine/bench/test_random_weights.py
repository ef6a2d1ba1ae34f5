"""Weights of published shapes: every type, of the right sizes, values that a model can have."""

from __future__ import annotations

import numpy as np
import pytest
from peer_models import small_config

from engine.bench.forward import random_subject
from engine.bench.recipes import FORMATS, UNIFORM, tensor_kinds
from engine.bench.shapes import draft_shape, shape
from engine.model.config import ModelConfig
from engine.model.gguf.header import KIND_OF_NAME
from engine.model.tensors import expected_tensors
from engine.model.weights.random_weights import RandomWeights, random_rows
from engine.model.weights.readable import Readable
from engine.model.weights.reader import widened


def config_of_long_rows() -> ModelConfig:
    return small_config("llama", hidden_size=256, intermediate_size=512, vocab_size=500)


@pytest.mark.release(keep=8, reason="every format")
@pytest.mark.parametrize("wanted", FORMATS)
def test_every_tensor_has_its_size(wanted: str) -> None:
    config = config_of_long_rows()
    weights: Readable = RandomWeights(config, tensor_kinds(config, wanted))
    for name, extents in expected_tensors(config).items():
        assert weights.float32(name).shape == weights.shape(name) == extents
        if len(extents) == 2:
            kind = KIND_OF_NAME[weights.kind(name)]
            nbytes = sum(part.nbytes for part in weights.stretches(name))
            assert nbytes == extents[0] * extents[1] // kind.numbers * kind.nbytes


@pytest.mark.parametrize("kind", UNIFORM.values())
def test_values_are_as_large_as_a_models(kind: str) -> None:
    values = widened(random_rows(kind, 64, 1024, np.random.default_rng(0)), kind)
    assert values.std() == pytest.approx(1024**-0.5, rel=0.1)
    assert abs(values.mean()) < 0.03 * 1024**-0.5
    assert abs(values).max() < 8 * 1024**-0.5


def test_the_same_weights_widened_for_a_reader_who_knows_only_some_types() -> None:
    config = config_of_long_rows()
    kinds = tensor_kinds(config, "q5_k_m")
    stored = RandomWeights(config, kinds)
    wide = RandomWeights(config, kinds, readable=("Q6_K",))
    name = "model.layers.0.mlp.up_proj.weight"
    assert (stored.kind(name), wide.kind(name)) == ("Q5_K", "F32")
    (part,) = wide.stretches(name)
    assert part.dtype == np.float32
    assert np.array_equal(part, stored.float32(name))
    assert wide.kind("lm_head.weight") == "Q6_K"
    other = RandomWeights(config, kinds, seed=1)
    assert not np.array_equal(part, other.float32(name))


@pytest.mark.release(keep=6, reason="every shape")
@pytest.mark.parametrize("wanted", FORMATS)
def test_models_compute_sane_numbers(wanted: str) -> None:
    config = draft_shape(shape("llama2-7b"), hidden=256, layers=3)
    decoder = random_subject(config, wanted, threads=1).decoder
    forward = decoder.forward(decoder.new_state(64), range(1, 33))
    assert np.isfinite(forward.logits).all()
    assert 0.3 < forward.logits.std() < 3
    assert len(set(forward.logits.argmax(axis=1))) > 8
