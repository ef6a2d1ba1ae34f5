"""A GGUF file's metadata give the config that the model's own config.json gives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gguf_files import F32, FLAG, TEXT, U32, Info, header, padded, pair

from engine.errors import UserFixable
from engine.model.config import ModelConfig
from engine.model.families import parse_config
from engine.model.gguf.config import config_json, model_config, usual_numbers
from engine.model.gguf.file import GgufFile, open_gguf
from engine.model.rope import rope_frequencies, rotations

SHAPE = {
    "block_count": 6,
    "context_length": 512,
    "embedding_length": 64,
    "feed_forward_length": 96,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
    "attention.layer_norm_rms_epsilon": 1e-5,
    "rope.freq_base": 10_000.0,
}
HF_SHAPE: dict[str, object] = {
    "vocab_size": 40,
    "num_hidden_layers": 6,
    "max_position_embeddings": 512,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": float(np.float32(1e-5)),
    "rope_theta": 10_000.0,
    "tie_word_embeddings": True,
    "bos_token_id": 1,
    "eos_token_id": [2, 3],
}
LONG_HEADS = {"attention.key_length": 32, "attention.value_length": 32}
SHORT, LONG = [1 + n / 8 for n in range(6)], [1.0 + n for n in range(6)]


def opened(
    folder: Path,
    architecture: str,
    numbers: Mapping[str, object] = {},
    tensors: Mapping[str, Sequence[float]] = {},
    others: Sequence[bytes] = (),
    ids: Mapping[str, int] = {"bos": 1, "eos": 2, "eot": 3, "eom": 2},
) -> GgufFile:
    """A model with an embedding of 40 rows, and other tensors with those values."""
    pairs = [pair("general.architecture", TEXT, architecture), *others]
    for key, content in (SHAPE | dict(numbers)).items():
        if content is None:
            continue
        first = content[0] if isinstance(content, list) else content
        kind = {bool: FLAG, int: U32, float: F32, str: TEXT}[type(first)]
        pairs.append(pair(f"{architecture}.{key}", kind, content))
    pairs += [pair(f"tokenizer.ggml.{name}_token_id", U32, ids[name]) for name in ids]
    data, infos = bytes(40 * 64 * 4), [Info("token_embd.weight", (64, 40))]
    for name, values in tensors.items():
        infos.append(Info(name, (len(values),), 0, len(data)))
        data += np.array(values, "<f4").tobytes().ljust(-(-len(values) // 8) * 32, b"\0")
    (folder / "m.gguf").write_bytes(padded(header(pairs, infos), data))
    return open_gguf(folder / "m.gguf")


CASES: dict[str, tuple[str, dict[str, object], dict[str, Sequence[float]], dict[str, object]]] = {
    "llama": ("llama", {"rope.dimension_count": 16}, {}, {"model_type": "llama"}),
    "an untied head": (
        "llama",
        {},
        {"output.weight": [0]},
        {"model_type": "llama", "tie_word_embeddings": False},
    ),
    "biases": (
        "llama",
        {"rope.scaling.type": "linear", "rope.scaling.factor": 2.0},
        {"blk.0.attn_q.bias": [0], "blk.0.ffn_up.bias": [0]},
        {
            "model_type": "llama",
            "attention_bias": True,
            "mlp_bias": True,
            "rope_scaling": {"rope_type": "linear", "factor": 2.0},
        },
    ),
    "an old name of the factor": (
        "llama",
        {"rope.scale_linear": 4.0},
        {},
        {"model_type": "llama", "rope_scaling": {"rope_type": "linear", "factor": 4.0}},
    ),
    "mistral as llama": (
        "llama",
        {"attention.sliding_window": 16, **LONG_HEADS},
        {},
        {"model_type": "mistral", "sliding_window": 16, "head_dim": 32},
    ),
    "mistral3": ("mistral3", {}, {}, {"model_type": "mistral", "sliding_window": None}),
    "qwen2": (
        "qwen2",
        {
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": 4.0,
            "rope.scaling.original_context_length": 128,
        },
        {},
        {
            "model_type": "qwen2",
            "rope_scaling": {
                "rope_type": "yarn",
                "factor": 4.0,
                "original_max_position_embeddings": 128,
            },
        },
    ),
    "qwen3": ("qwen3", LONG_HEADS, {}, {"model_type": "qwen3", "head_dim": 32}),
    "qwen3moe": (
        "qwen3moe",
        {
            "expert_count": 8,
            "expert_used_count": 2,
            "expert_feed_forward_length": 32,
            "expert_gating_func": 1,
        },
        {},
        {
            "model_type": "qwen3_moe",
            "num_experts": 8,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "norm_topk_prob": True,
        },
    ),
    "smollm3": (
        "smollm3",
        {"rope.freq_base": 2e6},
        {},
        {
            "model_type": "smollm3",
            "rope_theta": 2e6,
            "no_rope_layers": [1, 1, 1, 0, 1, 1],
        },
    ),
    "phi3": (
        "phi3",
        {"attention.sliding_window": 60},
        {},
        {"model_type": "phi3", "sliding_window": 60},
    ),
    "phi4-mini": (
        "phi3",
        {
            "attention.sliding_window": 0,
            "rope.dimension_count": 12,
            "rope.scaling.attn_factor": math.sqrt(1 + math.log(4) / math.log(128)),
            "rope.scaling.original_context_length": 128,
        },
        {"rope_factors_short.weight": SHORT, "rope_factors_long.weight": LONG},
        {
            "model_type": "phi3",
            "partial_rotary_factor": 0.75,
            "original_max_position_embeddings": 128,
            "rope_scaling": {"type": "longrope", "short_factor": SHORT, "long_factor": LONG},
        },
    ),
    "gemma2": (
        "gemma2",
        {
            "attention.sliding_window": 16,
            "attn_logit_softcapping": 40.0,
            "final_logit_softcapping": 20.0,
            "rope.freq_base": None,
            **LONG_HEADS,
        },
        {},
        {
            "model_type": "gemma2",
            "head_dim": 32,
            "query_pre_attn_scalar": 32,
            "sliding_window": 16,
            "attn_logit_softcapping": 40.0,
            "final_logit_softcapping": 20.0,
        },
    ),
    "the largest gemma2": (
        "gemma2",
        {"block_count": 46, **LONG_HEADS},
        {},
        {
            "model_type": "gemma2",
            "num_hidden_layers": 46,
            "head_dim": 32,
            "query_pre_attn_scalar": 16,
        },
    ),
    "gemma3": (
        "gemma3",
        {
            "attention.sliding_window": 16,
            "rope.freq_base": 1e6,
            "rope.scaling.type": "linear",
            "rope.scaling.factor": 8.0,
            **LONG_HEADS,
        },
        {},
        {
            "model_type": "gemma3_text",
            "head_dim": 32,
            "query_pre_attn_scalar": 32,
            "sliding_window": 16,
            "rope_theta": 1e6,
            "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        },
    ),
    "gemma3, its windows listed": (
        "gemma3",
        {
            "attention.sliding_window": 16,
            "attention.sliding_window_pattern": [True, False, True, False, True, False],
            "rope.freq_base_swa": 5000.0,
            **LONG_HEADS,
        },
        {},
        {
            "model_type": "gemma3_text",
            "head_dim": 32,
            "query_pre_attn_scalar": 32,
            "sliding_window": 16,
            "sliding_window_pattern": 2,
            "rope_local_base_freq": 5000.0,
        },
    ),
    "gpt-oss": (
        "gpt-oss",
        {
            "attention.sliding_window": 16,
            "expert_count": 4,
            "expert_used_count": 2,
            "expert_feed_forward_length": 96,
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": 32.0,
            "rope.scaling.original_context_length": 128,
            **LONG_HEADS,
        },
        {},
        {
            "model_type": "gpt_oss",
            "head_dim": 32,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "sliding_window": 16,
            "rope_scaling": {
                "rope_type": "yarn",
                "factor": 32.0,
                "original_max_position_embeddings": 128,
                "truncate": False,
            },
        },
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_config_is_that_of_config_json(tmp_path: Path, case: str) -> None:
    architecture, numbers, tensors, hf = CASES[case]
    ours = model_config(opened(tmp_path, architecture, numbers, tensors))
    theirs = parse_config(HF_SHAPE | hf)
    assert without_rotation(ours) == without_rotation(theirs)
    for one, other in zip(ours.blocks, theirs.blocks, strict=True):
        assert (one.rope is None) == (other.rope is None)
        for length in (100, 300):
            for mine, right in zip(
                tables(one.rope, length), tables(other.rope, length), strict=True
            ):
                np.testing.assert_allclose(mine, right, rtol=0, atol=1e-6)


def without_rotation(config: ModelConfig) -> ModelConfig:
    return replace(config, blocks=tuple(replace(block, rope=None) for block in config.blocks))


def tables(rope: object, length: int) -> tuple[np.ndarray, ...]:
    """cos and sin, for a context of that length."""
    if rope is None:
        return ()
    return rotations(replace(rope, long=length > rope.original_max_positions), length)


def test_the_frequencies_of_llama_3(tmp_path: Path) -> None:
    scaling = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    theirs = parse_config(HF_SHAPE | {"model_type": "llama", "rope_scaling": scaling})
    plain = parse_config(HF_SHAPE | {"model_type": "llama"})
    # What the converter stores: the frequency without stretching over that with it.
    divisors = rope_frequencies(plain.rope)[0] / rope_frequencies(theirs.rope)[0]
    ours = model_config(opened(tmp_path, "llama", {}, {"rope_freqs.weight": divisors.tolist()}))
    for length in (50, 512):
        for mine, right in zip(tables(ours.rope, length), tables(theirs.rope, length), strict=True):
            np.testing.assert_allclose(mine, right, rtol=0, atol=1e-4)


def test_what_a_file_leaves_out_and_all_of_its_family_have(tmp_path: Path) -> None:
    """Files of Ollama's lack the number in norms, and the larger Gemma 3's stretching."""
    left_out = {"attention.layer_norm_rms_epsilon": None}
    assert model_config(opened(tmp_path, "gemma3", left_out)).rms_norm_eps == 1e-6
    with pytest.raises(UserFixable, match="epsilon” should be"):
        model_config(opened(tmp_path, "llama", left_out))
    for blocks, factor in ((34, 8.0), (26, 1.0)):
        rope = model_config(opened(tmp_path, "gemma3", {"block_count": blocks})).blocks[-1].rope
        assert rope is not None
        assert rope.factor == factor
    no_base = {
        "rope.freq_base": None, "expert_count": 4, "expert_used_count": 2,
        "attention.sliding_window": 8,
    }  # fmt: skip
    for architecture, base in (("gemma3", 1e6), ("gpt-oss", 150_000.0), ("llama", 10_000.0)):
        assert config_json(opened(tmp_path, architecture, no_base))["rope_theta"] == base


def test_numbers_by_their_names_in_ollamas_files(tmp_path: Path) -> None:
    named = {
        "rope.freq_base": None, "rope.global.freq_base": 5e5, "rope.local.freq_base": 2e4,
        "attention.sliding_window": 8,
    }  # fmt: skip
    config = model_config(opened(tmp_path, "gemma3", named))
    assert [block.rope and block.rope.theta for block in config.blocks] == [2e4] * 5 + [5e5]


@pytest.mark.parametrize(
    ("architecture", "numbers", "usual"),
    [
        ("llama", {}, {}),
        ("llama", {"rope.freq_base": None}, {"rope.freq_base": 10_000.0}),
        ("gemma3", {"rope.freq_base_swa": 1e4}, {}),
        (
            "gemma3",
            {
                "attention.layer_norm_rms_epsilon": None, "rope.freq_base": None,
                "block_count": 34,
            },
            {
                "attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": 1e6,
                "rope.freq_base_swa": 1e4, "rope.scaling.factor": 8.0,
            },
        ),
        (
            "gemma2",
            {"final_logit_softcapping": 30.0},
            {"attention.sliding_window": 4096, "attn_logit_softcapping": 50.0},
        ),
    ],
)  # fmt: skip
def test_what_is_used_is_told(
    tmp_path: Path, architecture: str, numbers: dict[str, float], usual: dict[str, float]
) -> None:
    told = usual_numbers(opened(tmp_path, architecture, numbers))
    assert told == {f"{architecture}.{name}": value for name, value in usual.items()}


def test_lists_of_equal_numbers_count_as_one(tmp_path: Path) -> None:
    numbers = {"attention.head_count_kv": [2] * 6, "feed_forward_length": [96] * 6}
    assert model_config(opened(tmp_path, "llama", numbers)).typical.kv_heads == 2
    with pytest.raises(UserFixable, match="at most 1024 entries"):
        model_config(opened(tmp_path, "llama", {"attention.head_count_kv": [2] * 1025}))
    numbers = {"attention.head_count_kv": [2, 2, 1, 2, 2, 2]}
    with pytest.raises(UserFixable, match=r"differ in “attention\.head_count_kv”"):
        model_config(opened(tmp_path, "llama", numbers))


def test_ends_of_the_text_that_are_no_tokens(tmp_path: Path) -> None:
    config = model_config(opened(tmp_path, "llama", ids={"bos": 2**32 - 1, "eos": 39, "eot": 40}))
    assert (config.bos_token_id, config.eos_token_ids) == (None, (39,))


@pytest.mark.parametrize(
    ("architecture", "family"),
    [("rwkv7", "rwkv7"), ("mamba", "mamba"), ("deepseek2", "deepseek2")],
)
def test_other_architectures_are_named(tmp_path: Path, architecture: str, family: str) -> None:
    file = opened(tmp_path, architecture)
    assert config_json(file) == {"model_type": family}
    with pytest.raises(UserFixable, match=f"its family is “{family}”"):
        model_config(file)


@pytest.mark.parametrize(
    ("architecture", "numbers", "tensors", "word"),
    [
        ("llama", {"expert_count": 8}, {}, "“mixtral”"),
        ("mistral3", {"attention.temperature_scale": 0.1}, {}, "“ministral3”"),
        ("llama", {"attention.value_length": 32}, {}, "different sizes"),
        ("llama", {"rope.scaling.type": "x"}, {}, "RoPE scaling is “x”"),
        ("llama", {"rope.scaling.factor": 2.0}, {"rope_freqs.weight": [1]}, "two RoPE scalings"),
        ("llama", {}, {"rope_freqs.weight": [1.0] * 5}, "8 numbers"),
        ("llama", {}, {"rope_freqs.weight": [float("nan")] * 8}, "8 numbers"),
        ("llama", {}, {"rope_freqs.weight": [1.0] * 5000}, "RoPE scaling is"),
        ("llama", {"block_count": None}, {}, r"“llama\.block_count” should be"),
        ("llama", {"block_count": 2**31}, {}, r"“llama\.block_count” should be"),
        ("llama", {"embedding_length": 0}, {}, r"“llama\.embedding_length” should be"),
        ("llama", {"attention.head_count": 0}, {}, r"head_count” should be"),
        ("llama", {"attention.head_count": 5}, {}, "m.gguf is not usable"),
        ("llama", {"attention.key_length": "x"}, {}, r"key_length” should be"),
        ("llama", {"rope.dimension_count": 7}, {}, "pairs of numbers"),
        ("llama", {"rope.dimension_count": 600}, {}, "partial_rotary_factor"),
        ("llama", {"attention.layer_norm_rms_epsilon": float("nan")}, {}, "epsilon” should be"),
        ("qwen3moe", {"expert_count": 8, "expert_gating_func": 2}, {}, "softmax"),
        ("qwen3moe", {"expert_count": 8, "expert_used_count": 9}, {}, "num_experts_per_tok"),
        ("gemma3", {"attention.sliding_window_pattern": [True] * 5}, {}, "6 blocks"),
    ],
)
def test_what_cannot_be_run(
    tmp_path: Path,
    architecture: str,
    numbers: dict[str, object],
    tensors: dict[str, Sequence[float]],
    word: str,
) -> None:
    with pytest.raises(UserFixable, match=word):
        model_config(opened(tmp_path, architecture, numbers, tensors))


@pytest.mark.parametrize(
    ("architecture", "numbers", "others", "word"),
    [
        ("clip", {}, [], "sees or hears"),
        ("llama", {}, [pair("general.type", TEXT, "mmproj")], "sees or hears"),
        ("llama", {}, [pair("general.type", TEXT, "adapter")], "LoRA"),
        ("llama", {}, [pair("general.type", TEXT, "imatrix")], "statistics"),
        ("bert", {}, [], "cannot chat"),
        ("qwen3", {"pooling_type": 3}, [], "embedding model"),
        ("llama", {"attention.causal": False}, [], "embedding model"),
        ("eagle3", {}, [], "drafts for another"),
        ("controlvector", {}, [], "control vector"),
    ],
)
def test_what_is_no_language_model(
    tmp_path: Path, architecture: str, numbers: dict[str, object], others: list[bytes], word: str
) -> None:
    with pytest.raises(UserFixable, match=rf"m\.gguf .*{word}"):
        model_config(opened(tmp_path, architecture, numbers, others=others))


def test_files_without_a_model(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(padded(header([pair("general.architecture", TEXT, "llama")])))
    with pytest.raises(UserFixable, match="vocabulary only"):
        model_config(open_gguf(file))
    file.write_bytes(padded(header(tensors=[Info()]), bytes(512)))
    with pytest.raises(UserFixable, match=r"“general\.architecture” should be"):
        model_config(open_gguf(file))
    pairs = [pair("general.architecture", TEXT, "llama")]
    file.write_bytes(padded(header(pairs, [Info()]), bytes(512)))
    with pytest.raises(UserFixable, match="no table of tokens"):
        model_config(open_gguf(file))


def test_more_tokens_than_the_embedding_has(tmp_path: Path) -> None:
    words = [pair("tokenizer.ggml.tokens", TEXT, ["x"] * 41)]
    with pytest.raises(UserFixable, match="more tokens than"):
        model_config(opened(tmp_path, "llama", others=words))
