"""Llama and the families that vary little of it: Mistral, SmolLM2 and SmolLM3, Phi-3 and 4."""

from __future__ import annotations

from dataclasses import replace

from engine.language import tr
from engine.model.config import ModelConfig
from engine.model.families.common import read_plain, unsupported, with_blocks, with_windows
from engine.model.json_object import JsonObject

LLAMA: dict[str, object] = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
MISTRAL: dict[str, object] = {
    **LLAMA,
    "intermediate_size": 14336,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "sliding_window": 4096,
}
SMOLLM3: dict[str, object] = {
    "vocab_size": 128256,
    "hidden_size": 2048,
    "intermediate_size": 11008,
    "num_hidden_layers": 36,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6,
    "rope_theta": 2_000_000.0,
    "tie_word_embeddings": True,
    "bos_token_id": 128000,
    "eos_token_id": 128001,
}
PHI3: dict[str, object] = {
    "vocab_size": 32064,
    "hidden_size": 3072,
    "intermediate_size": 8192,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 4096,
    "original_max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "bos_token_id": 1,
    "eos_token_id": 32000,
}


def read_llama(source: JsonObject) -> ModelConfig:
    """Llama 1 to 3, SmolLM2 and the many that call themselves Llama.

    All matrices of attention or feed-forward have biases, or none.
    """
    bias = source.flag("attention_bias", default=False)
    return replace(
        read_plain(source),
        qkv_bias=bias,
        attention_out_bias=bias,
        mlp_bias=source.flag("mlp_bias", default=False),
    )


def read_mistral(source: JsonObject) -> ModelConfig:
    """Mistral, Mistral Nemo and Small, Ministral 8B: windows in all blocks or in some."""
    return with_windows(read_plain(source), source, lambda _: True)


def read_phi3(source: JsonObject) -> ModelConfig:
    """Phi-3 and 3.5 (mini and medium), Phi-4 and Phi-4-mini: fused matrices, long contexts."""
    config = with_windows(read_plain(source), source, lambda _: True)
    if config.rope.kind not in ("none", "longrope"):
        raise unsupported(tr("its RoPE scaling is “{kind}”").format(kind=config.rope.kind))
    return config


def read_smollm3(source: JsonObject) -> ModelConfig:
    """SmolLM3: some blocks know no positions."""
    config = read_llama(source)
    every = source.integer("no_rope_layer_interval", 1, 1 << 16, default=4)
    rotates = [bool((index + 1) % every) for index in range(config.num_layers)]
    if stated := source.items("no_rope_layers"):  # 1 where a block does rotate
        if len(stated) < config.num_layers or any(flag not in (0, 1) for flag in stated):
            raise source.wrong(
                "no_rope_layers",
                tr("0 or 1 for each of the {count} blocks").format(count=config.num_layers),
            )
        rotates = [bool(flag) for flag in stated[: config.num_layers]]
    config = with_blocks(
        config, lambda i, block: block if rotates[i] else replace(block, rope=None)
    )
    if not source.flag("use_sliding_window", default=False):
        return config
    return with_windows(config, source, lambda index: not rotates[index])
