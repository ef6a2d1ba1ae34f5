"""Published model shapes: what their config.json files say that matters to speed."""

from __future__ import annotations

from dataclasses import replace

from engine.errors import UserFixable
from engine.language import listed, tr
from engine.model.config import Fusion, ModelConfig
from engine.model.families import parse_config
from engine.model.families.qwen3_5 import TILED

Described = dict[str, object]
"""The members of a config.json."""


def _described(
    family: str,
    blocks: int,
    hidden: int,
    inner: int,
    heads: tuple[int, int],
    vocab: int,
    **others: object,
) -> Described:
    """Describe a dense model; `heads`: numbers of query and KV heads."""
    return {
        "model_type": family,
        "num_hidden_layers": blocks,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_attention_heads": heads[0],
        "num_key_value_heads": heads[1],
        "vocab_size": vocab,
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
        "hidden_act": "silu",
        **others,
    }


def _qwen2(
    blocks: int, hidden: int, inner: int, heads: tuple[int, int], **others: object
) -> Described:
    usual: Described = {
        "rope_theta": 1e6,
        "max_position_embeddings": 32768,
        "tie_word_embeddings": True,
    }
    return _described("qwen2", blocks, hidden, inner, heads, 151936, **usual | others)


def _qwen3(
    blocks: int, hidden: int, inner: int, heads: tuple[int, int], **others: object
) -> Described:
    usual: Described = {
        "model_type": "qwen3",
        "head_dim": 128,
        "max_position_embeddings": 40960,
    }
    return _qwen2(blocks, hidden, inner, heads, **usual | others)


def _llama3(
    blocks: int, hidden: int, inner: int, heads: tuple[int, int], stretch: float, **others: object
) -> Described:
    usual: Described = {
        "rope_theta": 5e5,
        "max_position_embeddings": 131072,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": stretch,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
        "tie_word_embeddings": True,
        "rms_norm_eps": 1e-5,
    }
    return _described("llama", blocks, hidden, inner, heads, 128256, **usual | others)


def _gemma3(
    blocks: int, hidden: int, inner: int, heads: tuple[int, int], window: int, **others: object
) -> Described:
    usual: Described = {
        "head_dim": 256,
        "query_pre_attn_scalar": 256,
        "sliding_window": window,
        "sliding_window_pattern": 6,
        "rope_theta": 1e6,
        "rope_local_base_freq": 1e4,
        "max_position_embeddings": 32768,
        "tie_word_embeddings": True,
        "hidden_activation": "gelu_pytorch_tanh",
    }
    return _described("gemma3_text", blocks, hidden, inner, heads, 262144, **usual | others)


def _qwen3_5(
    blocks: int, hidden: int, inner: int, heads: tuple[int, int], states: int, **others: object
) -> Described:
    """Three blocks in four have this many states of 128 x 128 numbers."""
    usual: Described = {
        "head_dim": 256,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": states,
        TILED: True,  # as in the files that most people have
        "rope_theta": 1e7,
        "partial_rotary_factor": 0.25,
        "max_position_embeddings": 262144,
        "tie_word_embeddings": True,
    }
    return _described("qwen3_5_text", blocks, hidden, inner, heads, 248320, **usual | others)


_QWEN3_5_35B_A3B = _qwen3_5(
    *(40, 2048, 512, (16, 2), 32),
    model_type="qwen3_5_moe_text",
    moe_intermediate_size=512,
    shared_expert_intermediate_size=512,
    num_experts=256,
    num_experts_per_tok=8,
    tie_word_embeddings=False,
)

_PHI4_MINI = _described(
    *("phi3", 32, 3072, 8192, (24, 8), 200064),
    max_position_embeddings=131072,
    original_max_position_embeddings=4096,
    partial_rotary_factor=0.75,
    rope_scaling={
        "type": "longrope",
        # The published divisors of frequencies would cost the same.
        "short_factor": [1.0] * 48,
        "long_factor": [1.0] * 48,
    },
    tie_word_embeddings=True,
    rms_norm_eps=1e-5,
)

_QWEN3_30B_A3B = _qwen3(
    *(48, 2048, 6144, (32, 4)),
    model_type="qwen3_moe",
    moe_intermediate_size=768,
    num_experts=128,
    num_experts_per_tok=8,
    norm_topk_prob=True,
    decoder_sparse_step=1,
    mlp_only_layers=[],
    tie_word_embeddings=False,
)

_GPT_OSS_20B = _described(
    *("gpt_oss", 24, 2880, 2880, (64, 8), 201088),
    head_dim=64,
    num_local_experts=32,
    num_experts_per_tok=4,
    sliding_window=128,
    layer_types=["sliding_attention", "full_attention"] * 12,
    attention_bias=True,
    max_position_embeddings=131072,
    rope_theta=150_000,
    rope_scaling={
        "rope_type": "yarn",
        "factor": 32.0,
        "original_max_position_embeddings": 4096,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "truncate": False,
    },
    rms_norm_eps=1e-5,
)

SHAPES: dict[str, Described] = {
    "qwen2.5-0.5b": _qwen2(24, 896, 4864, (14, 2)),
    "qwen2.5-1.5b": _qwen2(28, 1536, 8960, (12, 2)),
    "qwen2.5-3b": _qwen2(36, 2048, 11008, (16, 2)),
    "qwen2.5-7b": _qwen2(28, 3584, 18944, (28, 4), tie_word_embeddings=False, vocab_size=152064),
    "qwen3-0.6b": _qwen3(28, 1024, 3072, (16, 8)),
    "qwen3-1.7b": _qwen3(28, 2048, 6144, (16, 8)),
    "qwen3-4b": _qwen3(36, 2560, 9728, (32, 8)),
    "qwen3-8b": _qwen3(36, 4096, 12288, (32, 8), tie_word_embeddings=False),
    "qwen3-30b-a3b": _QWEN3_30B_A3B,
    "qwen3.5-0.8b": _qwen3_5(24, 1024, 3584, (8, 2), 16),
    "qwen3.5-2b": _qwen3_5(24, 2048, 6144, (8, 2), 16),
    "qwen3.5-4b": _qwen3_5(32, 2560, 9216, (16, 4), 32),
    "qwen3.5-9b": _qwen3_5(32, 4096, 12288, (16, 4), 32, tie_word_embeddings=False),
    "qwen3.5-27b": _qwen3_5(64, 5120, 17408, (24, 4), 48, tie_word_embeddings=False),
    "qwen3.5-35b-a3b": _QWEN3_5_35B_A3B,
    "llama2-7b": _described("llama", 32, 4096, 11008, (32, 32), 32000),
    "llama2-13b": _described("llama", 40, 5120, 13824, (40, 40), 32000),
    "llama3.1-8b": _llama3(32, 4096, 14336, (32, 8), 8.0, tie_word_embeddings=False),
    "llama3.2-1b": _llama3(16, 2048, 8192, (32, 8), 32.0),
    "llama3.2-3b": _llama3(28, 3072, 8192, (24, 8), 32.0),
    "smollm2-1.7b": _described(
        *("llama", 24, 2048, 8192, (32, 32), 49152),
        max_position_embeddings=8192,
        rope_theta=130_000,
        tie_word_embeddings=True,
        rms_norm_eps=1e-5,
    ),
    "gemma3-1b": _gemma3(26, 1152, 6912, (4, 1), 512),
    "gemma3-4b": _gemma3(
        *(34, 2560, 10240, (8, 4), 1024),
        vocab_size=262208,
        max_position_embeddings=131072,
        rope_scaling={"rope_type": "linear", "factor": 8.0},
    ),
    "phi4-mini": _PHI4_MINI,
    "gpt-oss-20b": _GPT_OSS_20B,
    # DuoDecoding's own draft, and a larger one of the same kind.
    "llama-68m": _described("llama", 2, 768, 3072, (12, 12), 32000, max_position_embeddings=2048),
    "llama-160m": _described("llama", 12, 768, 3072, (12, 12), 32000, max_position_embeddings=2048),
    # Rows of whole blocks of 256 and too many weights for any cache: for comparing formats.
    "bench": _described("llama", 12, 2048, 8192, (16, 4), 32768, tie_word_embeddings=True),
}

# As many bytes without a recurrent state, for comparing: all blocks attend, and are wider.
_TWINS: dict[str, Described] = {
    "qwen3.5-0.8b": {"intermediate_size": 4352},
    "qwen3.5-2b": {"intermediate_size": 6912},
    "qwen3.5-4b": {"intermediate_size": 9728},
    "qwen3.5-27b": {"intermediate_size": 17920},
    # Its experts stay as they are, so that as many of them are chosen of as many.
    "qwen3.5-35b-a3b": {"num_attention_heads": 18, "num_key_value_heads": 3},
}
SHAPES |= {
    f"{name}-attending": {**SHAPES[name], "full_attention_interval": 1, **wider}
    for name, wider in _TWINS.items()
}


def shape(name: str) -> ModelConfig:
    """The published shape called `name`; "S:8" is the first eight blocks of S.

    Raises:
        UserFixable: there is none of that name, or Duotail cannot run its family yet.
    """
    published, _, blocks = name.partition(":")
    try:
        described = SHAPES[published.lower()]
    except KeyError:
        known = listed(SHAPES)
        raise UserFixable(
            tr("There is no shape “{name}”.").format(name=name),
            tr("Choose one of {known}.").format(known=known),
        ) from None
    config = parse_config(described)
    if not blocks:
        return config
    if not blocks.isdecimal() or not 0 < int(blocks) <= config.num_layers:
        raise UserFixable(
            tr("{name} has no blocks “{blocks}”.").format(name=published, blocks=blocks),
            tr("Choose a number from 1 to {count}.").format(count=config.num_layers),
        )
    return replace(config, blocks=config.blocks[: int(blocks)])


def draft_shape(target: ModelConfig, hidden: int = 256, layers: int = 4) -> ModelConfig:
    """A small draft with the target's vocabulary."""
    heads = hidden // 64
    described = _described(
        *("llama", layers, hidden, hidden * 8 // 3 // 32 * 32, (heads, heads), target.vocab_size),
        tie_word_embeddings=True,
        max_position_embeddings=target.max_positions,
    )
    return parse_config(described)


def head_shape(target: ModelConfig, fusion: Fusion, blocks: int) -> ModelConfig:
    """A feature head: dense blocks of the target's size."""
    own = target.typical
    described = _described(
        *("llama", blocks, target.hidden_size, own.inner, (own.heads, own.kv_heads)),
        target.vocab_size,
        head_dim=own.head_dim,
        tie_word_embeddings=target.tie_word_embeddings and not fusion.own_head,
        max_position_embeddings=target.max_positions,
    )
    return replace(parse_config(described), fusion=fusion)
