"""config.json: both layouts, every refusal, every number checked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.errors import UserFixable
from engine.model.config import BlockConfig, ModelConfig, RopeConfig
from engine.model.families import open_config, parse_config

LLAMA: dict[str, object] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 100,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "hidden_act": "silu",
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "rope_theta": 5000.0,
    "bos_token_id": 1,
    "eos_token_id": [2, 3],
}
QWEN: dict[str, object] = {
    **LLAMA,
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "use_sliding_window": False,
    "sliding_window": 128,
    "max_window_layers": 1,
}


def test_reads_a_llama() -> None:
    config = parse_config(LLAMA)
    block = BlockConfig(
        RopeConfig(8, theta=5000.0),
        heads=4,
        kv_heads=2,
        head_dim=8,
        attention_scale=8**-0.5,
        inner=64,
    )
    assert config == ModelConfig(
        family="llama",
        vocab_size=100,
        hidden_size=32,
        rms_norm_eps=1e-5,
        max_positions=256,
        tie_word_embeddings=False,
        qkv_bias=False,
        attention_out_bias=False,
        mlp_bias=False,
        blocks=(block,) * 2,
        bos_token_id=1,
        eos_token_ids=(2, 3),
    )


def test_biases_follow_the_family() -> None:
    qwen = parse_config({**QWEN, "attention_bias": True})
    assert (qwen.qkv_bias, qwen.attention_out_bias, qwen.mlp_bias) == (True, False, False)
    llama = parse_config({**LLAMA, "attention_bias": True, "mlp_bias": True})
    assert (llama.qkv_bias, llama.attention_out_bias, llama.mlp_bias) == (True, True, True)


def test_head_dim_may_be_explicit_and_heads_default_to_no_grouping() -> None:
    data = {**LLAMA, "head_dim": 16, "num_key_value_heads": None}
    block = parse_config(data).typical
    assert (block.head_dim, block.kv_heads) == (16, 4)


def test_one_end_id_none_and_a_missing_start() -> None:
    config = parse_config({**LLAMA, "eos_token_id": 7, "bos_token_id": None})
    assert (config.eos_token_ids, config.bos_token_id) == ((7,), None)
    assert parse_config({**LLAMA, "eos_token_id": None}).eos_token_ids == ()


@pytest.mark.parametrize("kind_key", ["type", "rope_type"])
def test_both_rope_layouts_agree(kind_key: str) -> None:
    scaling = {kind_key: "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
    old = parse_config({**QWEN, "rope_scaling": scaling})
    new_data = {**QWEN, "rope_parameters": {**scaling, "rope_theta": 5000.0}}
    del new_data["rope_theta"]
    assert old == parse_config(new_data)
    assert old.rope == RopeConfig(8, 5000.0, "yarn", 4.0, original_max_positions=64)


def test_new_layout_without_stretching() -> None:
    data = {**LLAMA, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}
    assert parse_config(data).rope == RopeConfig(8, theta=1e6)


def test_windows_that_no_block_uses_are_fine() -> None:
    unused = {**QWEN, "use_sliding_window": True, "max_window_layers": 2}
    assert parse_config(unused).family == "qwen2"
    assert parse_config({**QWEN, "use_sliding_window": True, "sliding_window": None})


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"model_type": "mixtral"}, "mixtral"),
        ({"model_type": None}, "kind of model"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "LlamaForSequence"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantised"),
        ({"rope_scaling": {"rope_type": "xpos", "factor": 2.0}}, "xpos"),
        ({"rope_parameters": {"full_attention": {"rope_theta": 1.0}}}, "different RoPE settings"),
    ],
)
def test_unsupported_models_are_refused_in_words(change: dict[str, object], word: str) -> None:
    with pytest.raises(UserFixable, match=word) as caught:
        parse_config({**LLAMA, **change})
    assert caught.value.remedy


def test_a_part_of_each_head_may_be_rotated() -> None:
    assert parse_config({**LLAMA, "partial_rotary_factor": 0.5}).rope.dim == 4


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("vocab_size", 0),
        ("vocab_size", 10**12),
        ("vocab_size", True),
        ("vocab_size", "100"),
        ("vocab_size", None),
        ("hidden_size", -32),
        ("hidden_size", 33),
        ("hidden_size", 12),  # heads of 3, which cannot be rotated in pairs
        ("num_hidden_layers", 10**9),
        ("num_attention_heads", 0),
        ("num_key_value_heads", 3),
        ("num_key_value_heads", 8),
        ("head_dim", 7),
        ("head_dim", 10**6),
        ("intermediate_size", 1.5),
        ("rms_norm_eps", float("nan")),
        ("rms_norm_eps", float("inf")),
        ("rms_norm_eps", 0),
        ("max_position_embeddings", 10**10),
        ("partial_rotary_factor", 0.1),
        ("rope_theta", 1.0),
        ("rope_theta", -5.0),
        ("rope_scaling", "yarn"),
        ("rope_scaling", {"type": "linear", "factor": 0}),
        ("rope_scaling", {"type": "linear"}),
        ("rope_scaling", {"type": 3}),
        ("rope_scaling", {"type": "llama3", "factor": 2, "high_freq_factor": 1}),
        ("tie_word_embeddings", "yes"),
        ("bos_token_id", 100),
        ("eos_token_id", [2, -1]),
        ("eos_token_id", ["</s>"]),
    ],
)
def test_impossible_values_are_refused(key: str, value: object) -> None:
    with pytest.raises(UserFixable) as caught:
        parse_config({**LLAMA, key: value})
    assert "config.json" in caught.value.cause


def test_open_reads_the_file(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    assert open_config(tmp_path) == parse_config(LLAMA)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (None, "no config.json"),
        (b"", "damaged"),
        (b'{"model_type": "lla', "damaged"),
        (b"\xff\xfe\x00", "damaged"),
        (b"[1]", "no object"),
        (b"[" * 100_000, "damaged"),
        (b'{"a": ' + b"9" * 5000 + b"}", "damaged"),
    ],
)
def test_unreadable_files(tmp_path: Path, content: bytes | None, word: str) -> None:
    if content is not None:
        (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(UserFixable, match=word):
        open_config(tmp_path)
