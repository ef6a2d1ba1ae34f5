"""Readers of the members that config.json files of all families have.

It describes a decoder without biases in which all blocks are alike; what a family has beyond that
is for its own reader.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import cast

from engine.errors import UserFixable
from engine.language import later, tr
from engine.model.config import Activation, BlockConfig, ModelConfig, RopeConfig, RopeKind
from engine.model.json_object import JsonObject

CHOOSE_ANOTHER = later("Choose a model of another family.")
_ACTIVATIONS: dict[str, Activation] = {
    "silu": "silu",
    "swish": "silu",
    "gelu_pytorch_tanh": "gelu_tanh",
}
_LAYER_TYPES = ("full_attention", "sliding_attention")
_STRETCHINGS = ("linear", "dynamic", "llama3", "yarn", "longrope")


def unsupported(what: str, details: str = "") -> UserFixable:
    """The error for a model that is sound, but that the decoder cannot run."""
    return UserFixable(
        tr("Duotail cannot run this model yet: {what}.").format(what=what),
        tr(CHOOSE_ANOTHER),
        details,
    )


def refuse_quantised(source: JsonObject, allowed: Collection[str] = ()) -> None:
    """Raise `UserFixable` for weights quantised by a method that is not among the allowed ones."""
    for key in ("quantization_config", "compression_config"):
        if not source.has(key):
            continue
        member = source.data[key]
        method = member.get("quant_method") if isinstance(member, dict) else None
        if method not in allowed:
            raise UserFixable(
                tr("This model is stored in a quantised format that Duotail cannot read."),
                tr("Choose the original 16-bit version of the model, or one in GGUF format."),
                f"{key} = {member!r}"[:500],
            )


def read_plain(source: JsonObject) -> ModelConfig:
    """Read shape and constants of a decoder without biases in which all blocks are alike."""
    vocab_size = source.integer("vocab_size", 1, 1 << 21)
    hidden_size = source.integer("hidden_size", 1, 1 << 16)
    num_heads = source.integer("num_attention_heads", 1, 1024)
    max_positions = source.integer("max_position_embeddings", 1, 1 << 24)
    dim = _head_dim(source, hidden_size, num_heads)
    block = BlockConfig(
        _rope(source, max_positions, dim),
        heads=num_heads,
        kv_heads=_kv_heads(source, num_heads),
        head_dim=dim,
        attention_scale=dim**-0.5,
        inner=source.integer("intermediate_size", 1, 1 << 19),
    )
    bos = source.token_ids("bos_token_id", vocab_size)
    return ModelConfig(
        family=source.text("model_type") or "",
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        rms_norm_eps=source.number("rms_norm_eps", 1e-12, 0.1),
        max_positions=max_positions,
        tie_word_embeddings=source.flag("tie_word_embeddings", default=False),
        bos_token_id=bos[0] if bos else None,
        eos_token_ids=source.token_ids("eos_token_id", vocab_size),
        blocks=(block,) * source.integer("num_hidden_layers", 1, 512),
        activation=_activation(source),
    )


def with_blocks(
    config: ModelConfig, change: Callable[[int, BlockConfig], BlockConfig]
) -> ModelConfig:
    """Return the model with every block as `change` makes it of its number and itself."""
    return replace(config, blocks=tuple(map(change, range(config.num_layers), config.blocks)))


def with_windows(
    config: ModelConfig, source: JsonObject, usual: Callable[[int], bool]
) -> ModelConfig:
    """Return the model with windows; without a `sliding_window` every block sees the whole text.

    Args:
        config: of the model.
        source: its config.json.
        usual: whether a block has a window, by its number, where `layer_types` does not say.
    """
    if not source.has("sliding_window"):
        return config
    window = source.integer("sliding_window", 1, 1 << 24)
    slides = sliding(source, config, usual)
    return with_blocks(config, lambda i, block: replace(block, window=window if slides[i] else 0))


def sliding(source: JsonObject, config: ModelConfig, usual: Callable[[int], bool]) -> list[bool]:
    """Return which blocks look through a window; for the arguments see `with_windows`."""
    kinds = source.items("layer_types")
    if not kinds:
        return [usual(index) for index in range(config.num_layers)]
    others = [kind for kind in kinds if kind not in _LAYER_TYPES]
    if others:
        raise unsupported(tr("it has blocks of the kind “{kind}”").format(kind=str(others[0])[:60]))
    if len(kinds) != config.num_layers:
        raise source.wrong(
            "layer_types",
            tr("one entry for each of the {count} blocks").format(count=config.num_layers),
        )
    return [kind == "sliding_attention" for kind in kinds]


def _activation(source: JsonObject) -> Activation:
    """The activation function of a feed-forward's gate."""
    name = source.text("hidden_activation") or source.text("hidden_act") or "silu"
    if name not in _ACTIVATIONS:
        raise unsupported(
            tr("its activation function is “{activation}”").format(activation=name[:60])
        )
    return _ACTIVATIONS[name]


def _kv_heads(source: JsonObject, num_heads: int) -> int:
    """Number of key/value heads."""
    found = source.integer("num_key_value_heads", 1, num_heads, default=num_heads)
    if num_heads % found:
        raise source.wrong(
            "num_key_value_heads", tr("a divisor of {num_heads}").format(num_heads=num_heads)
        )
    return found


def _head_dim(source: JsonObject, hidden_size: int, num_heads: int) -> int:
    """Numbers per head."""
    if not source.has("head_dim") and hidden_size % num_heads:
        raise source.wrong(
            "hidden_size",
            tr("a multiple of the {num_heads} attention heads").format(num_heads=num_heads),
        )
    found = source.integer("head_dim", 2, 1024, default=hidden_size // num_heads)
    if found % 2 or not 2 <= found <= 1024:
        raise source.wrong("head_dim", tr("an even number from 2 to 1024"))
    return found


def _rope(source: JsonObject, max_positions: int, dim: int) -> RopeConfig:
    """Rotary positions of a model whose blocks all rotate alike.

    Both layouts are read: `rope_theta` + `rope_scaling`, and transformers 5's `rope_parameters`.
    """
    scaling = source.member("rope_parameters") or source.member("rope_scaling")
    if scaling is None:
        return RopeConfig(_rotated(source, dim), theta=_theta(source))
    if any(isinstance(value, dict) for value in scaling.data.values()):
        raise unsupported(tr("its blocks use different RoPE settings"), repr(scaling.data)[:500])
    return scaled_rope(source, scaling, max_positions, dim)


def scaled_rope(
    source: JsonObject, scaling: JsonObject, max_positions: int, dim: int
) -> RopeConfig:
    """Read rotary positions as one `rope_scaling` or `rope_parameters` object describes them.

    Args:
        source: the config.json, for what the object leaves out.
        scaling: the object.
        max_positions: of the model.
        dim: numbers per head.
    """
    base = _theta(scaling if scaling.has("rope_theta") else source)
    turned = _rotated(scaling if scaling.has("partial_rotary_factor") else source, dim)
    kind = scaling.text("rope_type") or scaling.text("type") or "default"
    if kind == "default":
        return RopeConfig(turned, theta=base)
    if kind == "su" or (kind == "yarn" and scaling.has("short_factor")):
        kind = "longrope"  # its first names, in Phi-3's files
    if kind not in _STRETCHINGS:
        raise unsupported(tr("its RoPE scaling is “{kind}”").format(kind=kind[:60]))
    # A value beside the scaling takes precedence over one inside it, as in transformers.
    where = source if source.has("original_max_position_embeddings") else scaling
    original = where.integer("original_max_position_embeddings", 1, 1 << 24, default=max_positions)
    if kind == "longrope" and original < 2:
        raise where.wrong("original_max_position_embeddings", tr("at least 2"))
    low = scaling.number("low_freq_factor", 1e-3, 1e6, default=1.0)
    high = scaling.number("high_freq_factor", 1e-3, 1e6, default=4.0)
    if kind == "llama3" and high <= low:
        raise scaling.wrong(
            "high_freq_factor", tr("above low_freq_factor ({low:g})").format(low=low)
        )
    return RopeConfig(
        dim=turned,
        theta=base,
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
        short_factors=_factors(scaling, "short_factor", kind, turned),
        long_factors=_factors(scaling, "long_factor", kind, turned),
    )


def _theta(source: JsonObject) -> float:
    """The base of the frequencies."""
    return source.number("rope_theta", 1.0 + 1e-6, 1e12, default=10_000.0)


def _rotated(source: JsonObject, dim: int) -> int:
    """The number of a head's dimensions that are rotated."""
    count = int(dim * source.number("partial_rotary_factor", 0, 1, default=1.0))
    if count < 2 or count % 2:
        raise source.wrong("partial_rotary_factor", tr("such that pairs of numbers are rotated"))
    return count


def _factor(scaling: JsonObject, kind: str, ratio: float) -> float:
    """The stretch; YaRN and longrope may leave it to the ratio of new to trained context."""
    if kind in ("yarn", "longrope") and not scaling.has("factor"):
        return max(ratio, 1.0)
    return scaling.number("factor", 1.0, 1e6)


def _factors(scaling: JsonObject, key: str, kind: str, dim: int) -> tuple[float, ...]:
    """One divisor per frequency."""
    if kind != "longrope":
        return ()
    values = [
        float(value)
        for value in scaling.items(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and 1e-6 < value < 1e9
    ]
    if len(values) != dim // 2 or len(values) != len(scaling.items(key)):
        raise scaling.wrong(key, tr("{count} numbers").format(count=dim // 2))
    return tuple(values)
