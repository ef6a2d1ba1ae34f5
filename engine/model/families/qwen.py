"""Qwen: Llama with biases on queries, keys and values (2, 2.5) or with norms on them (3)."""

from __future__ import annotations

from dataclasses import replace

from engine.language import tr
from engine.model.config import Experts, ModelConfig
from engine.model.families.common import read_plain, with_blocks, with_windows
from engine.model.json_object import JsonObject

QWEN2: dict[str, object] = {
    "vocab_size": 151936,
    "hidden_size": 4096,
    "intermediate_size": 22016,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6,
    "sliding_window": 4096,
    "max_window_layers": 28,
}
QWEN3: dict[str, object] = {**QWEN2, "head_dim": 128}
QWEN3_MOE: dict[str, object] = {
    "vocab_size": 151936,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 24,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6,
    "sliding_window": 4096,
    "decoder_sparse_step": 1,
    "moe_intermediate_size": 768,
    "num_experts_per_tok": 8,
    "num_experts": 128,
}


def read_qwen2(source: JsonObject) -> ModelConfig:
    """Qwen2 and Qwen2.5."""
    return replace(_with_late_windows(read_plain(source), source), qkv_bias=True)


def read_qwen3(source: JsonObject) -> ModelConfig:
    """Qwen3, the dense ones."""
    return _with_late_windows(_with_norms(source), source)


def read_qwen3_moe(source: JsonObject) -> ModelConfig:
    """Qwen3 with experts, in all blocks or in some."""
    config = _with_norms(source)
    if source.flag("use_sliding_window", default=False):
        config = with_windows(config, source, lambda _: True)
    key = "num_local_experts" if source.has("num_local_experts") else "num_experts"
    count = source.integer(key, 0, 1 << 12)
    if not count:
        return config
    experts = Experts(
        count,
        used=source.integer("num_experts_per_tok", 1, count),
        intermediate_size=source.integer("moe_intermediate_size", 1, 1 << 19),
        normalise=source.flag("norm_topk_prob", default=False),
    )
    step = source.integer("decoder_sparse_step", 1, 1 << 16)
    dense = source.items("mlp_only_layers")
    if any(not isinstance(index, int) for index in dense):
        raise source.wrong("mlp_only_layers", tr("numbers of blocks"))
    return with_blocks(
        config,
        lambda i, block: replace(block, experts=None if i in dense or (i + 1) % step else experts),
    )


def _with_norms(source: JsonObject) -> ModelConfig:
    """Read what all of Qwen3 has in common."""
    bias = source.flag("attention_bias", default=False)
    return replace(read_plain(source), qk_norm=True, qkv_bias=bias, attention_out_bias=bias)


def _with_late_windows(config: ModelConfig, source: JsonObject) -> ModelConfig:
    """Windows, if used at all, are for the blocks behind the first so many."""
    if not source.flag("use_sliding_window", default=False):
        return config
    full = source.integer("max_window_layers", 0, 1 << 16, default=28)
    return with_windows(config, source, lambda index: index >= full)
