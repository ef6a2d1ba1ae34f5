"""Our decoder against transformers on random models of every family, rope variants included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import decoder, reference, write_model

YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 5e5,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 128,
}
LINEAR = {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}

CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("llama", "llama", {}),
    ("llama tied", "llama", {"tie_word_embeddings": True}),
    ("llama biases", "llama", {"attention_bias": True, "mlp_bias": True}),
    ("llama one kv head", "llama", {"num_key_value_heads": 1}),
    ("llama own head size", "llama", {"head_dim": 24}),
    ("llama odd widths", "llama", {"hidden_size": 72, "intermediate_size": 90}),
    ("llama linear rope", "llama", {"rope_parameters": LINEAR}),
    ("llama llama3 rope", "llama", {"rope_parameters": LLAMA3}),
    ("llama yarn rope", "llama", {"rope_parameters": YARN, "max_position_embeddings": 640}),
    ("qwen2", "qwen2", {}),
    ("qwen2 tied", "qwen2", {"tie_word_embeddings": True, "rope_theta": 1e6}),
    ("qwen2 seven heads", "qwen2", {"hidden_size": 112, "num_attention_heads": 14}),
]


@pytest.mark.parametrize(("family", "shape"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_hidden_states_and_logits_agree(tmp_path: Path, family: str, shape: dict[str, Any]) -> None:
    folder = write_model(tmp_path, family, **shape)
    ours, theirs = decoder(folder), reference(folder)
    tokens = np.random.default_rng(1).integers(3, 320, 90).tolist()
    with torch.no_grad():
        expected = theirs(torch.tensor([tokens]), output_hidden_states=True)
    state = ours.new_state(640)
    taps = tuple(range(ours.config.num_layers - 1))
    got = ours.forward(state, tokens, taps=taps)
    np.testing.assert_allclose(got.logits, expected.logits[0].numpy(), atol=1e-4, rtol=1e-4)
    hidden = expected.hidden_states
    np.testing.assert_allclose(got.hidden, hidden[-1][0].numpy(), atol=1e-4, rtol=1e-4)
    for tap in taps:
        # hidden_states[i] is what enters block i.
        np.testing.assert_allclose(got.taps[tap], hidden[tap + 1][0].numpy(), atol=1e-4, rtol=1e-4)


def test_sharded_weights_give_the_same_model(tmp_path: Path) -> None:
    whole, sharded = tmp_path / "whole", tmp_path / "sharded"
    write_model(whole)
    reference(whole).save_pretrained(sharded, max_shard_size="100KB")
    assert len(list(sharded.glob("*.safetensors"))) > 1
    tokens = [4, 5, 6, 7]
    models = [decoder(folder) for folder in (whole, sharded)]
    first, second = (model.forward(model.new_state(64), tokens).logits for model in models)
    assert np.array_equal(first, second)


def test_only_the_asked_rows_get_logits(tmp_path: Path) -> None:
    ours = decoder(write_model(tmp_path))
    tokens = list(range(3, 33))
    everything = ours.forward(ours.new_state(64), tokens).logits
    some = ours.forward(ours.new_state(64), tokens, logit_rows=[29, 4, 11]).logits
    assert np.array_equal(some, everything[[4, 11, 29]])
    assert ours.forward(ours.new_state(64), tokens, logit_rows=()).logits.shape == (0, 320)
