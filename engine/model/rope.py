"""Rotation frequencies of a model's position embedding, for every supported stretching."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from engine.errors import UserFixable
from engine.language import tr
from engine.model.config import RopeConfig

Float32s = NDArray[np.float32]


def rope_frequencies(rope: RopeConfig) -> tuple[Float32s, float]:
    """Radians per position, float32[rope.dim / 2], and the factor on cos and sin.

    Raises:
        UserFixable: the stretching is "dynamic": its frequencies change with the length of the
            text, so keys already in the cache would no longer be those the model expects.
    """
    if rope.kind == "dynamic":
        raise UserFixable(
            tr(
                "Duotail cannot run this model: its dynamic RoPE scaling would change what is "
                "already computed whenever the conversation grows."
            ),
            tr("Choose a model without it, or one that uses linear, Llama 3 or YaRN scaling."),
        )
    if rope.kind == "yarn":
        return _yarn(rope, rope.dim), _yarn_attention_factor(rope)
    powers = _wavelength_powers(rope, rope.dim)
    if rope.kind == "longrope":
        factors = np.array(rope.long_factors if rope.long else rope.short_factors, np.float32)
        return np.float32(1) / (factors * powers), longrope_attention_factor(rope)
    frequencies = np.float32(1) / powers
    if rope.kind == "linear":
        frequencies = frequencies / np.float32(rope.factor)
    elif rope.kind == "llama3":
        frequencies = _llama3(rope, frequencies)
    return frequencies, 1.0


def rotations(rope: RopeConfig, positions: int, first: int = 0) -> tuple[Float32s, Float32s]:
    """Return cos and sin of the angles at some positions, float32 [count, rope.dim / 2] each.

    Args:
        rope: the position embedding.
        positions: end of the positions.
        first: the first of them.
    """
    frequencies, scaling = rope_frequencies(rope)
    angles = np.outer(np.arange(first, positions, dtype=np.float32), frequencies)
    cos = np.ascontiguousarray(np.cos(angles) * scaling, dtype=np.float32)
    sin = np.ascontiguousarray(np.sin(angles) * scaling, dtype=np.float32)
    return cos, sin


def _wavelength_powers(rope: RopeConfig, head_dim: int) -> Float32s:
    """theta^(2i / head_dim) in float32, the precision the models were trained with."""
    exponents = np.arange(0, head_dim, 2, dtype=np.float32) / np.float32(head_dim)
    # The power is taken in float64 and rounded once; torch's float32 power is within an ulp.
    return np.power(np.float64(np.float32(rope.theta)), exponents.astype(np.float64)).astype(
        np.float32
    )


def _llama3(rope: RopeConfig, frequencies: Float32s) -> Float32s:
    """Keep high frequencies, divide low ones, blend between."""
    context = np.float32(rope.original_max_positions)
    low, high = np.float32(rope.low_freq_factor), np.float32(rope.high_freq_factor)
    factor = np.float32(rope.factor)
    wavelengths = np.float32(2 * math.pi) / frequencies
    blend = (context / wavelengths - low) / (high - low)
    blended = (np.float32(1) - blend) * frequencies / factor + blend * frequencies
    result = np.where(wavelengths > context / low, frequencies / factor, blended)
    return np.where(wavelengths < context / high, frequencies, result).astype(np.float32)


def _yarn(rope: RopeConfig, head_dim: int) -> Float32s:
    """Blend stretched and original frequencies by how often each turns in the trained context."""
    powers = _wavelength_powers(rope, head_dim)
    original = np.float32(1) / powers
    stretched = np.float32(1) / (np.float32(rope.factor) * powers)
    first = _dimension_turning(rope, head_dim, rope.beta_fast)
    last = _dimension_turning(rope, head_dim, rope.beta_slow)
    if rope.truncate:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, head_dim - 1)
    if first == last:
        last += 0.001
    steps = np.arange(head_dim // 2, dtype=np.float32)
    ramp = np.clip((steps - np.float32(first)) / np.float32(last - first), 0, 1)
    keep = np.float32(1) - ramp.astype(np.float32)
    blended: Float32s = stretched * (np.float32(1) - keep) + original * keep
    return blended


def _dimension_turning(rope: RopeConfig, head_dim: int, turns: float) -> float:
    """The (fractional) dimension that turns `turns` times within the trained context."""
    ratio = rope.original_max_positions / (turns * 2 * math.pi)
    return head_dim * math.log(ratio) / (2 * math.log(rope.theta))


def _yarn_attention_factor(rope: RopeConfig) -> float:
    if rope.attention_factor is not None:
        return rope.attention_factor

    def temperature(scale: float) -> float:
        return 1.0 if rope.factor <= 1 else 0.1 * scale * math.log(rope.factor) + 1.0

    if rope.mscale and rope.mscale_all_dim:
        return temperature(rope.mscale) / temperature(rope.mscale_all_dim)
    return temperature(1.0)


def longrope_attention_factor(rope: RopeConfig) -> float:
    """Return the factor for texts that are longer than those the model was trained on."""
    if rope.attention_factor is not None:
        return rope.attention_factor
    if rope.factor <= 1:
        return 1.0
    return math.sqrt(1 + math.log(rope.factor) / math.log(rope.original_max_positions))
