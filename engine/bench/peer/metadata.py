"""Metadata of a model in a GGUF file, in llama.cpp's words."""

from __future__ import annotations

from math import isclose, log, sqrt

from engine.errors import UserFixable
from engine.language import tr
from engine.model.config import ModelConfig, RopeConfig

ARCHITECTURES = {
    "llama": "llama",
    "mistral": "llama",
    "smollm3": "smollm3",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "qwen3_moe": "qwen3moe",
    "gemma2": "gemma2",
    "gemma3_text": "gemma3",
    "phi3": "phi3",
    "gpt_oss": "gpt-oss",
}
"""llama.cpp's names of our families."""

_PERIODS = {"gemma2": 2, "gemma3": 6, "gpt-oss": 2}
"""Every so many blocks one has no window, the others have one: llama.cpp knows without a word."""

_PLAIN_PERIOD = 4
"""SmolLM3 rotates in all but every fourth block."""

Metadata = dict[str, str | int | float]


def refused(why: str) -> UserFixable:
    """The error for a model that llama.cpp cannot have alike."""
    return UserFixable(
        tr("This model cannot be compared with llama.cpp: {why}.").format(why=why),
        tr("Measure it without --peer."),
    )


def architecture_of(config: ModelConfig) -> str:
    """llama.cpp's name of the family.

    Raises:
        UserFixable: it has none, or none with these features.
    """
    architecture = ARCHITECTURES.get(config.family)
    if architecture is None:
        raise refused(tr("its family is “{family}”").format(family=config.family))
    blocks = range(config.num_layers)
    period = _PERIODS.get(architecture)
    windows = [period is not None and n % period < period - 1 for n in blocks]
    if period is not None and windows != [block.window > 0 for block in config.blocks]:
        raise refused(tr("its windows are in other blocks than there"))
    plain = [architecture == "smollm3" and n % _PLAIN_PERIOD == _PLAIN_PERIOD - 1 for n in blocks]
    if plain != [block.rope is None for block in config.blocks]:
        raise refused(tr("other blocks than there do without positions"))
    if not isclose(config.attention_scale, config.head_dim**-0.5, rel_tol=1e-6):
        raise refused(tr("its attention has another scale"))
    return architecture


def metadata_of(config: ModelConfig) -> Metadata:
    """The pairs of the file, without a vocabulary.

    Raises:
        UserFixable: as `architecture_of`, and for positions that GGUF cannot describe.
    """
    architecture = architecture_of(config)
    own: Metadata = {
        "context_length": config.max_positions,
        "embedding_length": config.hidden_size,
        "block_count": config.num_layers,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_heads,
        "attention.head_count_kv": config.num_kv_heads,
        "attention.key_length": config.head_dim,
        "attention.value_length": config.head_dim,
        "attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "vocab_size": config.vocab_size,
        **_positions(config),
        **_extras(config, architecture),
    }
    prefixed = {f"{architecture}.{key}": value for key, value in own.items()}
    # Tokens go in and logits come out as numbers: llama.cpp needs no words.
    return {**prefixed, "tokenizer.ggml.model": "none"}


def main_rope(config: ModelConfig) -> RopeConfig:
    """Return the rotation of the blocks without windows, which the file describes first."""
    ropes = [(block.window, block.rope) for block in config.blocks if block.rope is not None]
    return min(ropes, key=lambda pair: pair[0] > 0)[1]


def _extras(config: ModelConfig, architecture: str) -> Metadata:
    """Keys that only some families have."""
    own: Metadata = {}
    if architecture in _PERIODS:
        own["attention.sliding_window"] = max(block.window for block in config.blocks)
    if config.attention_softcap:
        own["attn_logit_softcapping"] = config.attention_softcap
    if config.logit_softcap:
        own["final_logit_softcapping"] = config.logit_softcap
    if experts := config.blocks[0].experts:
        own["expert_count"] = experts.count
        own["expert_used_count"] = experts.used
        own["expert_feed_forward_length"] = experts.intermediate_size
    return own


def _positions(config: ModelConfig) -> Metadata:
    rope = main_rope(config)
    own: Metadata = {"rope.dimension_count": rope.dim, "rope.freq_base": rope.theta}
    local = next((block.rope for block in config.blocks if block.window and block.rope), rope)
    if local.theta != rope.theta:
        own["rope.freq_base_swa"] = local.theta
    if rope.kind in ("none", "llama3"):  # llama3's frequencies are a tensor
        return own
    original = {"rope.scaling.original_context_length": rope.original_max_positions}
    if rope.kind == "linear":
        return own | {"rope.scaling.type": "linear", "rope.scaling.factor": rope.factor}
    if rope.kind == "longrope":
        return own | original | {"rope.scaling.attn_factor": _longrope_attention(rope)}
    if rope.kind == "yarn":
        usual = 0.1 * log(rope.factor) + 1
        return own | {
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": rope.factor,
            **original,
            "rope.scaling.attn_factor": (rope.attention_factor or usual) / usual,
            "rope.scaling.yarn_beta_fast": rope.beta_fast,
            "rope.scaling.yarn_beta_slow": rope.beta_slow,
        }
    raise refused(tr("positions stretched by “{kind}” are not handed over").format(kind=rope.kind))


def _longrope_attention(rope: RopeConfig) -> float:
    if rope.attention_factor is not None:
        return rope.attention_factor
    if rope.factor <= 1:
        return 1.0
    return sqrt(1 + log(rope.factor) / log(rope.original_max_positions))
