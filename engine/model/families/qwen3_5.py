"""Qwen3-Next, Qwen3.5 to 3.8: most blocks keep a state (gated delta layers), the others attend."""

from __future__ import annotations

from dataclasses import replace

from engine.language import tr
from engine.model.config import Delta, Experts, ModelConfig
from engine.model.families.common import read_plain, unsupported, with_blocks
from engine.model.json_object import JsonObject

QWEN3_5: dict[str, object] = {
    "vocab_size": 248320,
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 32,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6,
    "partial_rotary_factor": 0.25,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
}
QWEN3_5_MOE: dict[str, object] = {
    **QWEN3_5,
    "hidden_size": 2048,
    "num_hidden_layers": 40,
    "num_key_value_heads": 2,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "num_experts_per_tok": 8,
    "num_experts": 256,
}
QWEN3_NEXT: dict[str, object] = {
    **QWEN3_5_MOE,
    "vocab_size": 151936,
    "num_hidden_layers": 48,
    "num_experts_per_tok": 10,
    "num_experts": 512,
}
TILED = "linear_value_heads_tiled"
"""A member of our own: value heads lie as llama.cpp's files have them; see `Delta.tiled`."""
_LARGEST_HEAD, _WIDEST = 512, 8
_RECURRENT, _ATTENDING = "linear_attention", "full_attention"


def read_qwen3_5(source: JsonObject) -> ModelConfig:
    """The text part of Qwen3.5, 3.6 and 3.8, the dense ones.

    Its rotation knows of pictures (three counts of positions), which are the same for text.
    """
    bias = source.flag("attention_bias", default=False)
    config = replace(read_plain(source), qk_norm=True, qkv_bias=bias, attention_out_bias=bias)
    delta, recurrent = _delta(source), _recurrent(source, config.num_layers)
    return with_blocks(
        config,
        lambda i, block: (
            replace(block, rope=None, delta=delta) if recurrent[i] else replace(block, gated=True)
        ),
    )


def read_qwen3_5_moe(source: JsonObject) -> ModelConfig:
    """Qwen3-Next, Qwen3.5 and 3.6 with experts in all blocks, one of which serves every token."""
    dense = source.items("mlp_only_layers")
    if dense or source.integer("decoder_sparse_step", 1, 1 << 16, default=1) != 1:
        raise unsupported(tr("it has blocks without experts"))
    inner = source.integer("moe_intermediate_size", 1, 1 << 19)
    if source.integer("shared_expert_intermediate_size", 1, 1 << 19) != inner:
        raise unsupported(tr("its shared expert is of another size than the others"))
    count = source.integer("num_experts", 1, 1 << 12)
    experts = Experts(
        count,
        used=source.integer("num_experts_per_tok", 1, count),
        intermediate_size=inner,
        normalise=source.flag("norm_topk_prob", default=True),
        shared=True,
    )
    return with_blocks(
        read_qwen3_5(source), lambda _, block: replace(block, inner=inner, experts=experts)
    )


def _delta(source: JsonObject) -> Delta:
    """The shape of a gated delta layer."""
    keys = source.integer("linear_num_key_heads", 1, 1024)
    values = source.integer("linear_num_value_heads", 1, 1024)
    if values % keys:
        raise source.wrong(
            "linear_num_value_heads",
            tr("a multiple of linear_num_key_heads ({count})").format(count=keys),
        )
    return Delta(
        key_heads=keys,
        value_heads=values,
        key_dim=source.integer("linear_key_head_dim", 1, _LARGEST_HEAD),
        value_dim=source.integer("linear_value_head_dim", 1, _LARGEST_HEAD),
        width=source.integer("linear_conv_kernel_dim", 1, _WIDEST),
        tiled=source.flag(TILED, default=False),
    )


def _recurrent(source: JsonObject, blocks: int) -> list[bool]:
    """Return which blocks keep a state."""
    kinds = source.items("layer_types")
    if not kinds:
        every = source.integer("full_attention_interval", 1, 1 << 16, default=4)
        return [bool((index + 1) % every) for index in range(blocks)]
    others = [kind for kind in kinds if kind not in (_RECURRENT, _ATTENDING)]
    if others:
        raise unsupported(tr("it has blocks of the kind “{kind}”").format(kind=str(others[0])[:60]))
    if len(kinds) != blocks:
        raise source.wrong(
            "layer_types", tr("one entry for each of the {count} blocks").format(count=blocks)
        )
    return [kind == _RECURRENT for kind in kinds]
