"""Gemma 2 and 3: norms on both sides, caps on scores, local and global blocks by turns."""

from __future__ import annotations

from dataclasses import replace

from engine.language import tr
from engine.model.config import ModelConfig
from engine.model.families.common import (
    read_plain,
    scaled_rope,
    sliding,
    unsupported,
    with_blocks,
    with_windows,
)
from engine.model.json_object import JsonObject

GEMMA2: dict[str, object] = {
    "vocab_size": 256000,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh",
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
    "query_pre_attn_scalar": 256,
    "sliding_window": 4096,
    "final_logit_softcapping": 30.0,
    "attn_logit_softcapping": 50.0,
    "bos_token_id": 2,
    "eos_token_id": 1,
}
GEMMA3: dict[str, object] = {
    **GEMMA2,
    "vocab_size": 262208,
    "max_position_embeddings": 131072,
    "final_logit_softcapping": None,
    "attn_logit_softcapping": None,
    "rope_theta": 1_000_000.0,
    "rope_local_base_freq": 10_000.0,
    "sliding_window_pattern": 6,
}


def read_gemma2(source: JsonObject) -> ModelConfig:
    """Gemma 2: every other block looks through a window."""
    return with_windows(_with_norms_and_caps(source), source, lambda index: index % 2 == 0)


def read_gemma3(source: JsonObject) -> ModelConfig:
    """Gemma 3, text: five local blocks to a global one, which rotates more slowly."""
    both = source.member("rope_parameters") or JsonObject({}, source.origin)
    stretching = both.member("full_attention") or source.member("rope_scaling")
    everywhere = {**source.data, "rope_parameters": None, "rope_scaling": None}
    if stretching is not None:
        everywhere["rope_scaling"] = stretching.data
    config = replace(_with_norms_and_caps(JsonObject(everywhere, source.origin)), qk_norm=True)

    turn = source.integer("sliding_window_pattern", 1, 1 << 16, default=6)
    slides = sliding(source, config, lambda index: bool((index + 1) % turn))
    local = both.member("sliding_attention") or JsonObject({}, source.origin)
    local = local.over({"rope_theta": source.data.get("rope_local_base_freq")})
    rope = scaled_rope(source, local, config.max_positions, config.typical.head_dim)
    config = with_blocks(config, lambda i, block: replace(block, rope=rope) if slides[i] else block)
    return with_windows(config, source, slides.__getitem__)


def _with_norms_and_caps(source: JsonObject) -> ModelConfig:
    if source.flag("use_bidirectional_attention", default=False):
        raise unsupported(tr("its attention is bidirectional"))
    bias = source.flag("attention_bias", default=False)
    scale = source.number("query_pre_attn_scalar", 1e-3, 1e6) ** -0.5
    config = read_plain(source)
    config = with_blocks(config, lambda _, block: replace(block, attention_scale=scale))
    return replace(
        config,
        qkv_bias=bias,
        attention_out_bias=bias,
        attention_softcap=source.number("attn_logit_softcapping", 0, 1e6, default=0.0),
        logit_softcap=source.number("final_logit_softcapping", 0, 1e6, default=0.0),
        # transformers rounds it to the type it computes in (55.4256 becomes 55.5 in bf16). Here,
        # as in llama.cpp and in transformers' own float32, it is the root itself.
        embedding_scale=config.hidden_size**0.5,
        output_norms=True,
    )
