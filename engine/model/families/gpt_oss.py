"""gpt-oss: experts with biases, sinks, every other block local."""

from __future__ import annotations

from dataclasses import replace

from engine.language import tr
from engine.model.config import Experts, ModelConfig
from engine.model.families.common import read_plain, unsupported, with_blocks, with_windows
from engine.model.json_object import JsonObject

GPT_OSS: dict[str, object] = {
    "vocab_size": 201088,
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "num_hidden_layers": 36,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-5,
    "sliding_window": 128,
    "num_local_experts": 128,
    "num_experts_per_tok": 4,
    "attention_bias": True,
    "rope_theta": 150_000.0,
    "rope_scaling": {
        "rope_type": "yarn",
        "factor": 32.0,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "truncate": False,
        "original_max_position_embeddings": 4096,
    },
}


def read_gpt_oss(source: JsonObject) -> ModelConfig:
    """gpt-oss-20b and 120b, with their experts in MXFP4 or in 16 bit."""
    for key, usual in (("swiglu_alpha", 1.702), ("swiglu_limit", 7.0)):
        if source.number(key, 0, 1e6, default=usual) != usual:
            raise unsupported(tr("its “{key}” is not {value:g}").format(key=key, value=usual))
    bias = source.flag("attention_bias", default=True)
    config = with_windows(read_plain(source), source, lambda index: index % 2 == 0)
    key = "num_experts" if source.has("num_experts") else "num_local_experts"
    count = source.integer(key, 1, 1 << 12)
    experts = Experts(
        count,
        used=source.integer("num_experts_per_tok", 1, count),
        intermediate_size=config.typical.inner,
        normalise=True,
        bias=True,
    )
    config = with_blocks(config, lambda _, block: replace(block, experts=experts))
    return replace(
        config, qkv_bias=bias, attention_out_bias=bias, activation="swiglu_oai", sinks=True
    )
