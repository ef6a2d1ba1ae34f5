"""Our decoder against transformers on random models of every family, rope variants included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from harness import decode
from hybrid_models import EXPERTS, UNLIKE, reference_logits
from native_models import native_decoder
from tiny_models import decoder, reference, write_model

from engine.backend.native.library import Format
from engine.model.families import READERS
from engine.request import SamplingParams

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

NEAR, FAR = "sliding_attention", "full_attention"
QWEN_WINDOWS = {"use_sliding_window": True, "sliding_window": 20, "max_window_layers": 0}
LONG = {"original_max_position_embeddings": 60}
LONGROPE = {
    "rope_type": "longrope",
    "short_factor": [1.0, 1.1, 1.2, 1.3, 1.5, 1.7, 2.0, 2.5],
    "long_factor": [1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0, 12.0],
}
PART = {
    "rope_type": "longrope",
    "short_factor": [1.0, 1.1, 1.2, 1.3, 1.5, 1.7],
    "long_factor": [1.5, 2.0, 2.5, 3.0, 4.0, 6.0],
}
CAPS = {"attn_logit_softcapping": 1.5, "final_logit_softcapping": 2.0, "num_hidden_layers": 4}

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
    ("qwen2 windows", "qwen2", {**QWEN_WINDOWS, "max_window_layers": 1}),
    ("mistral", "mistral", {}),
    ("mistral without a window", "mistral", {"sliding_window": None, "head_dim": 24}),
    ("ministral", "ministral", {"layer_types": [NEAR, FAR, NEAR]}),
    ("qwen3", "qwen3", {}),
    ("qwen3 biases and windows", "qwen3", {"attention_bias": True, **QWEN_WINDOWS}),
    ("smollm3", "smollm3", {"num_hidden_layers": 5}),
    ("smollm3 windows", "smollm3", {"no_rope_layers": [0, 1, 0], **QWEN_WINDOWS}),
    ("phi3", "phi3", {"sliding_window": 33}),
    ("phi3 longrope, short", "phi3", {"rope_scaling": LONGROPE}),
    ("phi3 longrope, long", "phi3", {"rope_scaling": LONGROPE, **LONG}),
    ("phi4 mini", "phi3", {"rope_scaling": PART, "partial_rotary_factor": 0.75, **LONG}),
    ("gemma2", "gemma2", {}),
    ("gemma2 tight caps", "gemma2", CAPS),
    ("gemma3", "gemma3_text", {"num_hidden_layers": 7}),
    ("gemma3 linear", "gemma3_text", {"sliding_window_pattern": 2, "rope_scaling": LINEAR}),
    ("qwen3 moe", "qwen3_moe", {}),
    ("qwen3 moe, some blocks", "qwen3_moe", {"decoder_sparse_step": 2, "norm_topk_prob": True}),
    ("gpt-oss", "gpt_oss", {}),
    ("gpt-oss without biases", "gpt_oss", {"attention_bias": False, "num_experts_per_tok": 5}),
]

HYBRIDS = {
    "qwen3_5_text": UNLIKE,
    "qwen3_5_moe_text": {**UNLIKE, **EXPERTS},
    "qwen3_next": {**UNLIKE, **EXPERTS},
}
"""Families with delta layers, which the native library computes alone."""


@pytest.mark.release(keep=8, reason="every variant of every family")
@pytest.mark.parametrize(("family", "shape"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_hidden_states_and_logits_agree(tmp_path: Path, family: str, shape: dict[str, Any]) -> None:
    folder = write_model(tmp_path, family, **shape)
    tokens = np.random.default_rng(1).integers(3, 320, 110).tolist()
    ours, theirs = decoder(folder, len(tokens)), reference(folder)
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


@pytest.mark.release(keep=2, reason="every family")
@pytest.mark.parametrize("family", [family for family in READERS if family not in HYBRIDS])
def test_greedy_text_agrees(tmp_path: Path, family: str) -> None:
    """Of a model saved in 16 bit, token by token on top of a cache, past every window."""
    folder = write_model(tmp_path, family, dtype=torch.bfloat16)
    prompt = np.random.default_rng(2).integers(3, 320, 35).tolist()
    expected = reference(folder).generate(
        torch.tensor([prompt]), max_new_tokens=40, do_sample=False, eos_token_id=None
    )
    ours = decode(decoder(folder), prompt, SamplingParams(), max_tokens=40)
    assert [*prompt, *ours.tokens] == expected[0].tolist()


@pytest.mark.release(keep=1, reason="every family")
@pytest.mark.parametrize("family", HYBRIDS)
def test_greedy_text_of_a_hybrid_agrees(tmp_path: Path, family: str) -> None:
    """Token by token on top of states; transformers' forward of all of it would go on the same."""
    folder = write_model(tmp_path, family, dtype=torch.bfloat16, **HYBRIDS[family])
    prompt = np.random.default_rng(2).integers(3, 320, 35).tolist()
    ours = decode(native_decoder(folder, Format.F32), prompt, SamplingParams(), max_tokens=40)
    assert len(ours.tokens) == 40
    expected = reference_logits(folder, [*prompt, *ours.tokens[:-1]])
    assert ours.tokens == expected[len(prompt) - 1 :].argmax(1).tolist()


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
