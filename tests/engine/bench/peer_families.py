"""A small model of each family that llama.cpp has too, every feature large enough to matter."""

from __future__ import annotations

from collections.abc import Mapping

from engine.model.config import ModelConfig
from engine.model.families import parse_config
from engine.model.families.qwen3_5 import TILED

_YARN = {
    "rope_type": "yarn",
    "rope_theta": 1e4,
    "factor": 4.0,
    "original_max_position_embeddings": 64,
}
_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 1e4,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
_LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "short_factor": [1.0 + 0.1 * n for n in range(12)],
    "long_factor": [2.0 + 0.5 * n for n in range(12)],
}
_EXPERTS = {"num_experts_per_tok": 3, "num_experts": 8, "moe_intermediate_size": 96}

DESCRIBED: Mapping[str, Mapping[str, object]] = {
    "llama": {"model_type": "llama"},
    "llama biases": {"model_type": "llama", "attention_bias": True, "mlp_bias": True},
    "llama3": {"model_type": "llama", "rope_parameters": _LLAMA3},
    "llama linear": {
        "model_type": "llama",
        "rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0},
    },
    "mistral": {"model_type": "mistral", "sliding_window": None},
    "smollm3": {"model_type": "smollm3", "num_hidden_layers": 5, "no_rope_layer_interval": 4},
    "qwen2": {"model_type": "qwen2", "tie_word_embeddings": True},
    "qwen3": {"model_type": "qwen3"},
    "qwen3 yarn": {"model_type": "qwen3", "rope_parameters": _YARN},
    "qwen3moe": {
        "model_type": "qwen3_moe",
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        **_EXPERTS,
    },
    "gemma2": {
        "model_type": "gemma2",
        "num_hidden_layers": 4,
        "sliding_window": 24,
        "query_pre_attn_scalar": 32,
        "attn_logit_softcapping": 2.0,
        "final_logit_softcapping": 2.0,
        "tie_word_embeddings": True,
        "hidden_activation": "gelu_pytorch_tanh",
    },
    "gemma3": {
        "model_type": "gemma3_text",
        "num_hidden_layers": 7,
        "sliding_window": 24,
        "sliding_window_pattern": 6,
        "query_pre_attn_scalar": 32,
        "rope_theta": 1e6,
        "rope_local_base_freq": 1e4,
        "tie_word_embeddings": True,
        "hidden_activation": "gelu_pytorch_tanh",
    },
    "phi3": {"model_type": "phi3"},
    "phi3 longrope": {
        "model_type": "phi3",
        "partial_rotary_factor": 0.75,
        "rope_parameters": _LONGROPE | {"partial_rotary_factor": 0.75},
        "max_position_embeddings": 4096,
        "original_max_position_embeddings": 1024,
    },
    "gpt-oss": {
        "model_type": "gpt_oss",
        "num_local_experts": 8,
        "num_experts_per_tok": 3,
        "intermediate_size": 96,
        "sliding_window": 24,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "num_hidden_layers": 4,
        "attention_bias": True,
        "rope_parameters": _YARN,
    },
}

_STATES = {
    "num_hidden_layers": 5,
    "head_dim": 64,
    "layer_types": [*["linear_attention"] * 2, *["full_attention", "linear_attention"] * 2][:5],
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 6,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 32,
    "partial_rotary_factor": 0.5,
    "rms_norm_eps": 1e-6,
    TILED: True,
}
RECURRENT: Mapping[str, Mapping[str, object]] = {
    "qwen3.5": {"model_type": "qwen3_5_text", **_STATES},
    "qwen3.5 experts": {
        "model_type": "qwen3_5_moe_text",
        **_STATES,
        **_EXPERTS,
        "shared_expert_intermediate_size": 96,
    },
}
"""Families with states, which only the native backend computes."""


def family_config(name: str, **changes: object) -> ModelConfig:
    """The small model called so, but for the changes."""
    usual: Mapping[str, object] = {
        "num_hidden_layers": 3,
        "hidden_size": 128,
        "intermediate_size": 192,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "vocab_size": 333,
        "max_position_embeddings": 256,
        "rms_norm_eps": 2**-20,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "tie_word_embeddings": False,
    }
    return parse_config({**usual, **(DESCRIBED | RECURRENT)[name], **changes})
