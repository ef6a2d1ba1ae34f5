"""Llama: the plain decoder that the other families vary."""

from __future__ import annotations

import dataclasses

from engine.language import tr
from engine.model.config import BlockConfig, ModelConfig
from engine.model.families.common import (
    check_activation,
    head_dim,
    kv_heads,
    refuse_quantised,
    rope,
    unsupported,
)
from engine.model.json_object import JsonObject


def read_llama(source: JsonObject) -> ModelConfig:
    """Llama 1 to 3, SmolLM2 and the many that call themselves Llama."""
    bias = source.flag("attention_bias", default=False)
    config = read_plain(source, "llama", default_positions=2048)
    return dataclasses.replace(
        config,
        qkv_bias=bias,
        attention_out_bias=bias,
        mlp_bias=source.flag("mlp_bias", default=False),
    )


def read_plain(source: JsonObject, family: str, default_positions: int) -> ModelConfig:
    """A decoder without biases in which all blocks are alike."""
    check_activation(source)
    refuse_quantised(source)
    vocab_size = source.integer("vocab_size", 1, 1 << 21)
    hidden_size = source.integer("hidden_size", 1, 1 << 16)
    num_heads = source.integer("num_attention_heads", 1, 1024)
    max_positions = source.integer("max_position_embeddings", 1, 1 << 24, default=default_positions)
    dim = head_dim(source, hidden_size, num_heads)
    positions = rope(source, max_positions, dim)
    if positions.dim != dim:
        raise unsupported(tr("only a part of each head is rotated"))
    if positions.kind == "longrope":
        raise unsupported(tr("its positions are stretched by “{kind}”").format(kind="longrope"))
    block = BlockConfig(positions)
    bos = source.token_ids("bos_token_id", vocab_size)
    return ModelConfig(
        family=family,
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        intermediate_size=source.integer("intermediate_size", 1, 1 << 19),
        num_heads=num_heads,
        num_kv_heads=kv_heads(source, num_heads),
        head_dim=dim,
        rms_norm_eps=source.number("rms_norm_eps", 1e-12, 0.1, default=1e-6),
        max_positions=max_positions,
        tie_word_embeddings=source.flag("tie_word_embeddings", default=False),
        bos_token_id=bos[0] if bos else None,
        eos_token_ids=source.token_ids("eos_token_id", vocab_size),
        blocks=(block,) * source.integer("num_hidden_layers", 1, 512),
        attention_scale=dim**-0.5,
    )
