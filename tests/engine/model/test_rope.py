"""Rotation frequencies equal transformers' for every kind of stretching."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine.errors import UserFixable
from engine.model.families import parse_config
from engine.model.rope import longrope_attention_factor, rope_frequencies

BASE: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 64,
    "hidden_size": 512,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "max_position_embeddings": 8192,
}
STRETCHED: list[dict[str, Any]] = [
    {"rope_theta": 10_000.0},
    {"rope_theta": 1_000_000.0, "head_dim": 64},
    {"rope_theta": 500.0, "rope_scaling": {"type": "linear", "factor": 3.0}},
    {
        "rope_theta": 500_000.0,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 2048,
        },
    },
    {
        "rope_theta": 500_000.0,
        "head_dim": 64,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 32.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
    },
    {
        "rope_theta": 1_000_000.0,
        "rope_scaling": {
            "type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 2048,
        },
    },
    {
        "rope_theta": 10_000.0,
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 16.0,
            "original_max_position_embeddings": 512,
            "beta_fast": 16,
            "beta_slow": 2,
            "mscale": 1.0,
            "mscale_all_dim": 0.5,
            "truncate": False,
        },
    },
    {
        "rope_theta": 10_000.0,
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 2.0,
            "original_max_position_embeddings": 4096,
            "attention_factor": 0.75,
        },
    },
    {
        "rope_theta": 10_000.0,
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 2048,
            "beta_fast": 8,
            "beta_slow": 8,
            "truncate": False,
        },
    },
    {
        "rope_theta": 10_000.0,
        "head_dim": 16,
        "rope_scaling": {
            "rope_type": "longrope",
            "factor": 16.0,
            "original_max_position_embeddings": 512,
            "short_factor": [1.0, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 9.0],
            "long_factor": [2.0, 3.0, 5.0, 8.0, 13.0, 21.0, 34.0, 55.0],
        },
    },
]


@pytest.mark.parametrize("change", STRETCHED)
def test_equal_to_transformers(change: dict[str, Any]) -> None:
    from transformers.models.llama.configuration_llama import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    data = {**BASE, **change}
    embedding = LlamaRotaryEmbedding(LlamaConfig(**data))
    theirs = embedding.inv_freq.numpy()
    frequencies, scaling = rope_frequencies(parse_config(data).rope)

    assert frequencies.dtype == np.float32
    assert frequencies.shape == theirs.shape
    np.testing.assert_allclose(frequencies, theirs, rtol=5e-7, atol=0)
    assert scaling == pytest.approx(embedding.attention_scaling, rel=1e-12)


def test_stretchings_differ() -> None:
    tables = [rope_frequencies(parse_config({**BASE, **s}).rope)[0] for s in STRETCHED[2:6]]
    assert all(np.any(a[:32] != b[:32]) for a in tables for b in tables if a is not b)


def test_long_texts_have_factors_of_their_own() -> None:
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
    from transformers.models.llama.configuration_llama import LlamaConfig

    data = {**BASE, **STRETCHED[-1]}
    config = parse_config(data)
    for context in (512, 513):
        compute: Any = ROPE_INIT_FUNCTIONS["longrope"]
        theirs, scaling = compute(LlamaConfig(**data), seq_len=context)
        frequencies, ours = rope_frequencies(config.for_context(context).rope)
        np.testing.assert_allclose(frequencies, theirs.numpy(), rtol=5e-7)
        assert ours == pytest.approx(scaling, rel=1e-12)
    rope = replace(config.rope, attention_factor=None)
    assert longrope_attention_factor(replace(rope, factor=1.0)) == 1.0
    assert longrope_attention_factor(replace(rope, factor=4.0)) > 1.0


def test_dynamic_stretching_is_refused() -> None:
    data = {**BASE, "rope_scaling": {"type": "dynamic", "factor": 2.0}}
    with pytest.raises(UserFixable, match="dynamic"):
        rope_frequencies(parse_config(data).rope)
