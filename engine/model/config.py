"""What a model looks like: the checked contents of a Hugging Face `config.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from engine.errors import UserFixable
from engine.language import later, tr
from engine.model.json_object import JsonObject

Family = Literal["llama", "qwen2"]
RopeKind = Literal["none", "linear", "dynamic", "llama3", "yarn"]

ARCHITECTURES = {"LlamaForCausalLM": "llama", "Qwen2ForCausalLM": "qwen2"}
CHOOSE_ANOTHER = later("Choose a Llama or Qwen2/Qwen2.5 chat model in safetensors format.")


@dataclass(frozen=True, slots=True)
class RopeConfig:
    """Rotary position embedding and how it is stretched beyond the trained context.

    Fields that a kind does not use keep their defaults. `original_max_positions` is the context
    the model was trained on before stretching.
    """

    theta: float = 10_000.0
    kind: RopeKind = "none"
    factor: float = 1.0
    original_max_positions: int = 0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    attention_factor: float | None = None
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    mscale: float | None = None
    mscale_all_dim: float | None = None
    truncate: bool = True


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Shape and constants of a dense decoder (Llama, Qwen2, Qwen2.5)."""

    family: Family
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_norm_eps: float
    max_positions: int
    tie_word_embeddings: bool
    qkv_bias: bool
    attention_out_bias: bool
    mlp_bias: bool
    rope: RopeConfig
    bos_token_id: int | None
    eos_token_ids: tuple[int, ...]

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> ModelConfig:
        """Check and read the contents of a `config.json`.

        Both layouts are read: `rope_theta` + `rope_scaling`, and transformers 5's
        `rope_parameters`. Raises `UserFixable` for families and features that the decoder does
        not have, and for numbers that cannot be right.
        """
        source = JsonObject(data, "config.json")
        family = _family(source)
        _refuse_unsupported(source, family)
        vocab_size = source.integer("vocab_size", 1, 1 << 21)
        hidden_size = source.integer("hidden_size", 1, 1 << 16)
        num_heads = source.integer("num_attention_heads", 1, 1024)
        max_positions = source.integer(
            "max_position_embeddings", 1, 1 << 24, default=2048 if family == "llama" else 32768
        )
        attention_bias = family == "llama" and source.flag("attention_bias", default=False)
        bos = source.token_ids("bos_token_id", vocab_size)
        return cls(
            family=family,
            vocab_size=vocab_size,
            hidden_size=hidden_size,
            intermediate_size=source.integer("intermediate_size", 1, 1 << 19),
            num_layers=source.integer("num_hidden_layers", 1, 512),
            num_heads=num_heads,
            num_kv_heads=_kv_heads(source, num_heads),
            head_dim=_head_dim(source, hidden_size, num_heads),
            rms_norm_eps=source.number("rms_norm_eps", 1e-12, 0.1, default=1e-6),
            max_positions=max_positions,
            tie_word_embeddings=source.flag("tie_word_embeddings", default=False),
            qkv_bias=family == "qwen2" or attention_bias,
            attention_out_bias=attention_bias,
            mlp_bias=family == "llama" and source.flag("mlp_bias", default=False),
            rope=_rope(source, max_positions),
            bos_token_id=bos[0] if bos else None,
            eos_token_ids=source.token_ids("eos_token_id", vocab_size),
        )

    @classmethod
    def open(cls, folder: Path) -> ModelConfig:
        """Read `config.json` of a model folder."""
        return cls.from_json(JsonObject.read(folder / "config.json").data)


def _unsupported(what: str, details: str = "") -> UserFixable:
    return UserFixable(
        tr("Duotail cannot run this model yet: {what}.").format(what=what),
        tr(CHOOSE_ANOTHER),
        details,
    )


def _family(source: JsonObject) -> Family:
    family = source.text("model_type")
    if family is None:
        raise UserFixable(
            tr("config.json does not say which kind of model this is."),
            tr("Choose a folder with a language model, not a part of one (such as an adapter)."),
        )
    if family not in ARCHITECTURES.values():
        raise _unsupported(tr("its family is “{family}”").format(family=family[:60]))
    architectures = source.items("architectures")
    if architectures and not any(
        isinstance(name, str) and ARCHITECTURES.get(name) == family for name in architectures
    ):
        raise _unsupported(
            tr("its architecture is “{name}”").format(name=str(architectures[0])[:60])
        )
    return cast("Family", family)


def _refuse_unsupported(source: JsonObject, family: Family) -> None:
    activation = source.text("hidden_act") or "silu"
    if activation not in ("silu", "swish"):
        raise _unsupported(
            tr("its activation function is “{activation}”").format(activation=activation[:60])
        )
    for key in ("quantization_config", "compression_config"):
        if source.has(key):
            raise UserFixable(
                tr("This model is stored in a quantised format that Duotail cannot read."),
                tr("Choose the original 16-bit version of the model."),
                f"{key} = {source.data[key]!r}"[:500],
            )
    if source.number("partial_rotary_factor", 0, 1, default=1.0) != 1.0:
        raise _unsupported(tr("only a part of each head is rotated"))
    if family == "qwen2" and _slides(source):
        raise _unsupported(tr("it uses sliding-window attention"))


def _slides(source: JsonObject) -> bool:
    """Whether any block of a Qwen2 model really looks through a window."""
    if not source.flag("use_sliding_window", default=False) or not source.has("sliding_window"):
        return False
    layer_types = source.items("layer_types")
    if layer_types:
        return "sliding_attention" in layer_types
    full_layers = source.integer("max_window_layers", 0, 1 << 16, default=28)
    return full_layers < source.integer("num_hidden_layers", 1, 512)


def _kv_heads(source: JsonObject, num_heads: int) -> int:
    kv_heads = source.integer("num_key_value_heads", 1, num_heads, default=num_heads)
    if num_heads % kv_heads:
        raise source.wrong(
            "num_key_value_heads", tr("a divisor of {num_heads}").format(num_heads=num_heads)
        )
    return kv_heads


def _head_dim(source: JsonObject, hidden_size: int, num_heads: int) -> int:
    if not source.has("head_dim") and hidden_size % num_heads:
        raise source.wrong(
            "hidden_size",
            tr("a multiple of the {num_heads} attention heads").format(num_heads=num_heads),
        )
    head_dim = source.integer("head_dim", 2, 1024, default=hidden_size // num_heads)
    if head_dim % 2 or not 2 <= head_dim <= 1024:
        raise source.wrong("head_dim", tr("an even number from 2 to 1024"))
    return head_dim


def _rope(source: JsonObject, max_positions: int) -> RopeConfig:
    scaling = source.member("rope_parameters") or source.member("rope_scaling")
    if scaling is None:
        return RopeConfig(theta=_theta(source))
    if any(isinstance(value, dict) for value in scaling.data.values()):
        raise _unsupported(
            tr("its blocks rotate positions in different ways"), repr(scaling.data)[:500]
        )
    theta = _theta(scaling) if scaling.has("rope_theta") else _theta(source)
    if scaling.number("partial_rotary_factor", 0, 1, default=1.0) != 1.0:
        raise _unsupported(tr("only a part of each head is rotated"))
    kind = scaling.text("rope_type") or scaling.text("type") or "default"
    if kind == "default":
        return RopeConfig(theta=theta)
    if kind not in ("linear", "dynamic", "llama3", "yarn"):
        raise _unsupported(tr("its positions are stretched by “{kind}”").format(kind=kind[:60]))
    # A value beside the scaling takes precedence over one inside it, as in transformers.
    where = source if source.has("original_max_position_embeddings") else scaling
    original = where.integer("original_max_position_embeddings", 1, 1 << 24, default=max_positions)
    low = scaling.number("low_freq_factor", 1e-3, 1e6, default=1.0)
    high = scaling.number("high_freq_factor", 1e-3, 1e6, default=4.0)
    if kind == "llama3" and high <= low:
        raise scaling.wrong(
            "high_freq_factor", tr("above low_freq_factor ({low:g})").format(low=low)
        )
    return RopeConfig(
        theta=theta,
        kind=cast("RopeKind", kind),
        factor=_factor(scaling, kind, max_positions / original),
        original_max_positions=original,
        low_freq_factor=low,
        high_freq_factor=high,
        attention_factor=scaling.optional_number("attention_factor", 1e-6, 1e6),
        beta_fast=scaling.number("beta_fast", 0, 1e6, default=32.0) or 32.0,
        beta_slow=scaling.number("beta_slow", 0, 1e6, default=1.0) or 1.0,
        mscale=scaling.optional_number("mscale", 0, 1e6),
        mscale_all_dim=scaling.optional_number("mscale_all_dim", 0, 1e6),
        truncate=scaling.flag("truncate", default=True),
    )


def _theta(source: JsonObject) -> float:
    return source.number("rope_theta", 1.0 + 1e-6, 1e12, default=10_000.0)


def _factor(scaling: JsonObject, kind: str, ratio: float) -> float:
    """The stretch; YaRN may leave it to the ratio of new to trained context."""
    if kind == "yarn" and not scaling.has("factor"):
        return max(ratio, 1.0)
    return scaling.number("factor", 1.0, 1e6)
