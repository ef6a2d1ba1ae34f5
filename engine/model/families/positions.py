"""Rotary positions in the families' config.json files, read and checked."""

from __future__ import annotations

from typing import cast

from engine.language import tr
from engine.model.config import RopeConfig, RopeKind
from engine.model.families.common import unsupported
from engine.model.json_object import JsonObject

_STRETCHINGS = ("linear", "dynamic", "llama3", "yarn", "longrope")


def rope(source: JsonObject, max_positions: int, dim: int) -> RopeConfig:
    """Rotary positions of a model whose blocks all rotate alike.

    Both layouts are read: `rope_theta` + `rope_scaling`, and transformers 5's `rope_parameters`.
    """
    scaling = source.member("rope_parameters") or source.member("rope_scaling")
    if scaling is None:
        return RopeConfig(rotated(source, dim), theta=theta(source))
    if any(isinstance(value, dict) for value in scaling.data.values()):
        raise unsupported(
            tr("its blocks rotate positions in different ways"), repr(scaling.data)[:500]
        )
    return scaled_rope(source, scaling, max_positions, dim)


def scaled_rope(
    source: JsonObject, scaling: JsonObject, max_positions: int, dim: int
) -> RopeConfig:
    """Rotary positions as one `rope_scaling` or `rope_parameters` object describes them."""
    base = theta(scaling) if scaling.has("rope_theta") else theta(source)
    turned = rotated(scaling if scaling.has("partial_rotary_factor") else source, dim)
    kind = scaling.text("rope_type") or scaling.text("type") or "default"
    if kind == "default":
        return RopeConfig(turned, theta=base)
    if kind == "su" or (kind == "yarn" and scaling.has("short_factor")):
        kind = "longrope"  # its first names, in Phi-3's files
    if kind not in _STRETCHINGS:
        raise unsupported(tr("its positions are stretched by “{kind}”").format(kind=kind[:60]))
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


def theta(source: JsonObject) -> float:
    """The base of the frequencies."""
    return source.number("rope_theta", 1.0 + 1e-6, 1e12, default=10_000.0)


def rotated(source: JsonObject, dim: int) -> int:
    """How many of a head's numbers are rotated."""
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
