"""Llama and the families that vary little of it: Mistral, SmolLM2 and SmolLM3."""

from __future__ import annotations

from dataclasses import replace

from engine.language import tr
from engine.model.config import ModelConfig
from engine.model.families.common import refuse_quantised
from engine.model.families.plain import read_plain, with_windows
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
"""What a config.json means that does not say otherwise; so for every family here."""
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


def read_llama(source: JsonObject) -> ModelConfig:
    """Llama 1 to 3, SmolLM2 and the many that call themselves Llama."""
    return _with_biases(source.over(LLAMA))


def read_mistral(source: JsonObject) -> ModelConfig:
    """Mistral, Mistral Nemo and Small, Ministral 8B: windows in all blocks or in some."""
    source = source.over(MISTRAL)
    refuse_quantised(source)
    return with_windows(read_plain(source), source, lambda _: True)


def read_smollm3(source: JsonObject) -> ModelConfig:
    """SmolLM3: some blocks know no positions."""
    source = source.over(SMOLLM3)
    config = _with_biases(source)
    every = source.integer("no_rope_layer_interval", 1, 1 << 16, default=4)
    rotates = [bool((index + 1) % every) for index in range(config.num_layers)]
    if stated := source.items("no_rope_layers"):  # 1 where a block does rotate
        if len(stated) < config.num_layers or any(flag not in (0, 1) for flag in stated):
            raise source.wrong(
                "no_rope_layers",
                tr("0 or 1 for each of the {count} blocks").format(count=config.num_layers),
            )
        rotates = [bool(flag) for flag in stated[: config.num_layers]]
    blocks = [
        block if turning else replace(block, rope=None)
        for block, turning in zip(config.blocks, rotates, strict=True)
    ]
    config = replace(config, blocks=tuple(blocks))
    if not source.flag("use_sliding_window", default=False):
        return config
    return with_windows(config, source, lambda index: not rotates[index])


def _with_biases(source: JsonObject) -> ModelConfig:
    """All matrices of attention or feed-forward have biases, or none."""
    refuse_quantised(source)
    bias = source.flag("attention_bias", default=False)
    return replace(
        read_plain(source),
        qkv_bias=bias,
        attention_out_bias=bias,
        mlp_bias=source.flag("mlp_bias", default=False),
    )
