"""What is handed to llama.cpp: names, shapes and values of the tensors, and the metadata."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from peer_models import Random, small_config

from engine.backend.native.library import Format
from engine.bench.peer.export import BlockWeights, Tensor, export
from engine.errors import UserFixable
from engine.model.config import ModelConfig
from engine.model.families.common import with_blocks
from engine.model.rope import rope_frequencies
from engine.model.weights.readable import Floats

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 5e5,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 128,
}


def read(tensor: Tensor) -> Floats:
    """Values of a BF16 or F32 tensor."""
    data = np.concatenate(list(tensor.read()))
    assert data.nbytes == tensor.nbytes
    if tensor.kind == "F32":
        return data.view(np.float32).reshape(tensor.shape)
    return (data.view("<u2").astype(np.uint32) << 16).view(np.float32).reshape(tensor.shape)


def tensors(config: ModelConfig) -> dict[str, Floats]:
    weights = BlockWeights(config, Random(config), Format.BF16)
    return {tensor.name: read(tensor) for tensor in export(config, weights).tensors}


def neighbours(rows: Floats, heads: int) -> Floats:
    """Rows i and i + half of a head, one behind the other."""
    half = len(rows) // heads // 2
    order = [
        h * 2 * half + i + part * half for h in range(heads) for i in range(half) for part in (0, 1)
    ]
    return rows[order]


def close(ours: Floats, original: Floats) -> bool:
    return np.allclose(ours, original, rtol=2**-8, atol=0)


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_every_tensor_holds_its_weights(family: str) -> None:
    config = small_config(family, attention_bias=True)
    found = tensors(config)
    original = Random(config).float32
    own = config.typical
    turned = {"q": own.heads, "k": own.kv_heads} if family == "llama" else {}
    for index in range(config.num_layers):
        theirs, ours = f"blk.{index}.", f"model.layers.{index}."
        for part in "qkv":
            for kind in ("weight", "bias"):
                wanted = original(f"{ours}self_attn.{part}_proj.{kind}")
                if part in turned:
                    wanted = neighbours(wanted, turned[part])
                assert close(found.pop(f"{theirs}attn_{part}.{kind}"), wanted)
        for name, hf in (
            ("attn_output", "self_attn.o_proj"),
            ("ffn_gate", "mlp.gate_proj"),
            ("ffn_up", "mlp.up_proj"),
            ("ffn_down", "mlp.down_proj"),
            ("attn_norm", "input_layernorm"),
            ("ffn_norm", "post_attention_layernorm"),
        ):
            assert close(found.pop(f"{theirs}{name}.weight"), original(f"{ours}{hf}.weight"))
        if config.attention_out_bias:
            bias = original(f"{ours}self_attn.o_proj.bias")
            assert close(found.pop(f"{theirs}attn_output.bias"), bias)
    assert close(found.pop("token_embd.weight"), original("model.embed_tokens.weight"))
    assert close(found.pop("output.weight"), original("lm_head.weight"))
    assert close(found.pop("output_norm.weight"), original("model.norm.weight"))
    assert not found


def test_tied_embeddings_are_handed_over_once() -> None:
    found = tensors(small_config("qwen2", tie_word_embeddings=True))
    assert "token_embd.weight" in found
    assert "output.weight" not in found


def test_stretched_positions() -> None:
    config = small_config("llama", rope_parameters=LLAMA3)
    found = tensors(config)
    dim = config.typical.head_dim
    plain = 5e5 ** -(np.arange(0, dim, 2) / dim)
    stretched = plain / found["rope_freqs.weight"]
    assert np.allclose(stretched, rope_frequencies(config.rope)[0], rtol=1e-5)
    assert found["rope_freqs.weight"].max() == pytest.approx(8)


def test_metadata() -> None:
    config = small_config("qwen2", rope_theta=5e5)
    exported = export(config, Random(config))
    assert exported.architecture == "qwen2"
    metadata = exported.metadata
    assert metadata["qwen2.block_count"] == 2
    assert metadata["qwen2.attention.head_count_kv"] == 2
    assert metadata["qwen2.rope.freq_base"] == 5e5
    assert metadata["qwen2.vocab_size"] == 333


class Mixed(Random):
    """Queries of another type than keys and values."""

    def kind(self, name: str) -> str:
        return "F16" if "q_proj" in name else "F32"


def test_matrices_of_different_types_are_not_fused() -> None:
    config = small_config("phi3", bos_token_id=1, eos_token_id=2, pad_token_id=0)
    with pytest.raises(UserFixable, match="different types"):
        export(config, Mixed(config))


def test_models_that_llama_cpp_cannot_have_alike() -> None:
    ends = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    dynamic = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}
    for config in (
        small_config("llama", rope_parameters=dynamic),
        small_config("llama", intermediate_size=200),
        replace(small_config("llama"), family="gptj"),
        with_blocks(small_config("llama"), lambda _, own: replace(own, attention_scale=0.5)),
        replace(small_config("gemma3_text"), blocks=small_config("llama").blocks),
        replace(
            small_config("smollm3", num_hidden_layers=4, **ends),
            blocks=small_config("llama").blocks * 2,
        ),
    ):
        with pytest.raises(UserFixable, match="cannot be compared"):
            export(config, BlockWeights(config, Random(config), Format.Q4))
