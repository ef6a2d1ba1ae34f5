"""Every family's config.json, also where it leaves things to transformers' defaults."""

from __future__ import annotations

import json
from typing import Any

import pytest
from transformers import AutoConfig

from engine.errors import UserFixable
from engine.model.config import Experts, ModelConfig
from engine.model.families import READERS, WITH_IMAGES, parse_config

SMALL: dict[str, object] = {
    "vocab_size": 100,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
SU = {"type": "su", "short_factor": [1.5] * 4, "long_factor": [2.5] * 4}


def read(family: str, **changes: object) -> ModelConfig:
    return parse_config({**SMALL, "model_type": family, **changes})


def windows(config: ModelConfig) -> list[int]:
    return [block.window for block in config.blocks]


@pytest.mark.parametrize("family", list(READERS))
def test_what_is_left_out_means_what_transformers_writes(family: str) -> None:
    theirs = AutoConfig.for_model(family)
    written: dict[str, Any] = json.loads(theirs.to_json_string(use_diff=False))
    ours = parse_config({"model_type": family})
    assert ours == parse_config({**written, "architectures": None})
    assert ours.typical.head_dim == (
        getattr(theirs, "head_dim", None) or theirs.hidden_size // theirs.num_attention_heads
    )
    assert (ours.vocab_size, ours.num_layers) == (theirs.vocab_size, theirs.num_hidden_layers)
    assert ours.eos_token_ids == (() if theirs.eos_token_id is None else (theirs.eos_token_id,))


@pytest.mark.parametrize("family", list(READERS))
def test_what_transformers_saves_reads_the_same(family: str) -> None:
    """`save_pretrained` leaves out what is the default, and names some things anew."""
    changes = {"original_max_position_embeddings": 64} if family == "phi3" else {}
    theirs = AutoConfig.for_model(family, **SMALL, **changes)
    assert parse_config(json.loads(theirs.to_json_string())) == read(family, **changes)


def test_mistral_windows() -> None:
    assert windows(read("mistral")) == [4096] * 8
    assert windows(read("mistral", sliding_window=None)) == [0] * 8
    kinds = ["full_attention", "sliding_attention"] * 4
    assert windows(read("ministral", sliding_window=32, layer_types=kinds)) == [0, 32] * 4


def test_qwen_windows_begin_behind_the_full_blocks() -> None:
    for family in ("qwen2", "qwen3"):
        on = {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 6}
        assert windows(read(family, **on)) == [0] * 6 + [16] * 2
        assert windows(read(family, **{**on, "use_sliding_window": False})) == [0] * 8
    assert windows(read("qwen3_moe", use_sliding_window=True, sliding_window=16)) == [16] * 8


def test_qwen3_norms_its_heads_and_may_have_biases() -> None:
    config = read("qwen3", attention_bias=True)
    assert (config.qk_norm, config.qkv_bias, config.attention_out_bias) == (True, True, True)
    assert not read("qwen3").qkv_bias


def test_qwen3_experts_in_some_blocks() -> None:
    config = read(
        "qwen3_moe", num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24,
        decoder_sparse_step=2, mlp_only_layers=[3], norm_topk_prob=True,
    )  # fmt: skip
    experts = Experts(6, used=2, intermediate_size=24, normalise=True)
    found = [index for index, block in enumerate(config.blocks) if block.experts == experts]
    assert found == [1, 5, 7]
    assert not any(block.experts for block in read("qwen3_moe", num_experts=0).blocks)
    with pytest.raises(UserFixable, match="num_experts_per_tok"):
        read("qwen3_moe", num_experts=4)


def test_smollm3_blocks_without_positions() -> None:
    def turning(config: ModelConfig) -> list[bool]:
        return [block.rope is not None for block in config.blocks]

    assert turning(read("smollm3")) == [True, True, True, False] * 2
    stated = read("smollm3", no_rope_layers=[0, 1] * 4, use_sliding_window=True, sliding_window=16)
    assert turning(stated) == [False, True] * 4
    assert windows(stated) == [16, 0] * 4
    with pytest.raises(UserFixable, match="no_rope_layers"):
        read("smollm3", no_rope_layers=[1, 0])


@pytest.mark.parametrize("kind", ["su", "yarn", "longrope"])
def test_phi3_stretches_by_lists_of_factors(kind: str) -> None:
    config = read(
        "phi3", rope_scaling={**SU, "type": kind}, original_max_position_embeddings=64,
        sliding_window=50, rms_norm_eps=1e-4,
    )  # fmt: skip
    rope = config.rope
    assert (rope.kind, rope.short_factors, rope.factor) == ("longrope", (1.5,) * 4, 4.0)
    assert windows(config) == [50] * 8
    assert not rope.long
    assert not config.for_context(64).rope.long
    assert config.for_context(65).rope.long


def test_phi4_mini_rotates_a_part_of_each_head() -> None:
    part = {**SU, "type": "longrope", "short_factor": [1.0] * 3, "long_factor": [2.0] * 3}
    config = read("phi3", partial_rotary_factor=0.75, rope_scaling=part)
    assert (config.rope.dim, config.typical.head_dim) == (6, 8)
    with pytest.raises(UserFixable, match="short_factor"):
        read("phi3", partial_rotary_factor=0.75, rope_scaling=SU)


def test_gemma2_alternates_and_caps() -> None:
    config = read("gemma2", query_pre_attn_scalar=16, sliding_window=5)
    assert windows(config) == [5, 0] * 4
    assert (config.attention_softcap, config.logit_softcap) == (50, 30)
    assert (config.activation, config.typical.attention_scale) == ("gelu_tanh", 0.25)
    assert config.embedding_scale == pytest.approx(32**0.5)
    assert config.output_norms
    assert config.tie_word_embeddings
    without = read("gemma2", attn_logit_softcapping=None, final_logit_softcapping=None)
    assert (without.attention_softcap, without.logit_softcap) == (0, 0)


def test_gemma3_rotates_local_and_global_blocks_differently() -> None:
    config = read(
        "gemma3_text", sliding_window=7, sliding_window_pattern=3,
        rope_scaling={"rope_type": "linear", "factor": 8.0}, rope_theta=5e5,
    )  # fmt: skip
    assert windows(config) == [7, 7, 0, 7, 7, 0, 7, 7]
    near, far = config.blocks[0].rope, config.blocks[2].rope
    assert near is not None
    assert far is not None
    assert (near.theta, near.kind) == (10_000, "none")
    assert (far.theta, far.kind, far.factor) == (5e5, "linear", 8)
    assert config.qk_norm
    assert config.attention_softcap == 0


@pytest.mark.parametrize("family", list(WITH_IMAGES))
def test_the_text_part_of_a_model_that_sees_pictures(family: str) -> None:
    theirs = AutoConfig.for_model(family)
    written = json.loads(theirs.to_json_string(use_diff=False))
    written["text_config"] |= {"num_hidden_layers": 2, "layer_types": None}
    config = parse_config({**written, "eos_token_id": [1, 106]})
    assert (config.family, config.num_layers) == (WITH_IMAGES[family][1], 2)
    assert config.eos_token_ids == (1, 106)
    # What is published for gemma-3-4b-it says little more than this.
    brief = {"hidden_size": 2560, "num_hidden_layers": 34, "sliding_window": 1024}
    if family == "gemma3":
        few = parse_config({"model_type": family, "text_config": brief})
        assert (few.typical.heads, few.typical.head_dim, few.vocab_size) == (8, 256, 262208)


def test_gpt_oss() -> None:
    config = read("gpt_oss", num_local_experts=6, num_experts_per_tok=2)
    assert config.blocks[0].experts == Experts(6, 2, 64, normalise=True, bias=True)
    assert windows(config) == [128, 0] * 4
    assert (config.sinks, config.activation) == (True, "swiglu_oai")
    assert (config.rope.kind, config.rope.truncate, config.rope.theta) == ("yarn", False, 150_000)
    assert read("gpt_oss", quantization_config={"quant_method": "mxfp4"})


@pytest.mark.parametrize(
    ("family", "change", "word"),
    [
        ("gpt_oss", {"swiglu_limit": 5.0}, "swiglu_limit"),
        ("gpt_oss", {"quantization_config": {"quant_method": "gptq"}}, "quantised"),
        ("qwen3", {"quantization_config": {"quant_method": "mxfp4"}}, "quantised"),
        ("gemma2", {"use_bidirectional_attention": True}, "bidirectional"),
        ("gemma2", {"hidden_activation": "gelu"}, "gelu"),
        ("qwen2", {"use_sliding_window": True, "layer_types": ["chunked_attention"]}, "chunked"),
        ("mistral", {"layer_types": ["sliding_attention"]}, "layer_types"),
        ("mistral", {"sliding_window": 0}, "sliding_window"),
        ("phi3", {"rope_scaling": {"type": "linear", "factor": 2.0}}, "linear"),
        ("phi3", {"rope_scaling": {**SU, "long_factor": [0.0] * 4}}, "long_factor"),
        ("phi3", {"rope_scaling": SU, "original_max_position_embeddings": 1}, "at least 2"),
        ("smollm3", {"no_rope_layers": "all"}, "no_rope_layers"),
        ("gemma2", {"query_pre_attn_scalar": 0}, "query_pre"),
        ("qwen3_moe", {"mlp_only_layers": ["a"]}, "mlp_only"),
        ("gemma3", {"architectures": ["Gemma3ForSequenceClassification"]}, "Classification"),
        ("mistral3", {"text_config": {"model_type": "ministral3"}}, "ministral3"),
    ],
)
def test_refusals_in_words(family: str, change: dict[str, object], word: str) -> None:
    with pytest.raises(UserFixable, match=word) as caught:
        read(family, **change)
    assert caught.value.remedy
