"""One text through an encoder: all tokens see each other, and none is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.encoder.config import EncoderConfig, Pooling
from engine.encoder.weights import EncoderWeights

Floats = NDArray[np.float32]
_ROWS = 512
"""Tokens whose attention is computed at a time: long texts would take memory by their square."""


def embedding(config: EncoderConfig, weights: EncoderWeights, ids: Sequence[int]) -> Floats:
    """Return what a text means, float32 [width], of length 1.

    Args:
        config: of the encoder.
        weights: of the encoder.
        ids: the text's tokens, with those that begin and end it.
    """
    hidden = _entered(config, weights, ids)
    for block in range(config.blocks):
        hidden = _block(config, weights, f"{block}.", hidden)
    match config.pooling:
        case Pooling.MEAN:
            pooled = hidden.mean(axis=0)
        case Pooling.FIRST:
            pooled = hidden[0]
        case Pooling.LAST:
            pooled = hidden[-1]
    result: Floats = pooled / np.float32(max(float(np.linalg.norm(pooled)), 1e-12))
    return result


def _entered(config: EncoderConfig, weights: EncoderWeights, ids: Sequence[int]) -> Floats:
    hidden = weights["tokens"][np.asarray(ids)]
    if (types := weights.get("types")) is not None:
        hidden = hidden + types[0]
    if config.rotary is None:
        hidden = hidden + weights["positions"][config.first : config.first + len(ids)]
    return _normed(config, weights, "norm", hidden)


def _block(config: EncoderConfig, weights: EncoderWeights, at: str, hidden: Floats) -> Floats:
    query, key, value = (
        _heads(config, _product(weights, at + name, hidden)) for name in ("query", "key", "value")
    )
    if config.rotary is not None:
        query, key = (_rotated(each, config.rotary) for each in (query, key))
    mixed = _attended(query, key, value).swapaxes(0, 1).reshape(hidden.shape)
    hidden = _normed(
        config, weights, at + "attention_norm", hidden + _product(weights, at + "out", mixed)
    )
    inner, act = _product(weights, at + "up", hidden), _ACTIVATIONS[config.activation]
    inner = act(_product(weights, at + "gate", hidden)) * inner if config.gated else act(inner)
    return _normed(config, weights, at + "norm", hidden + _product(weights, at + "down", inner))


def _product(weights: EncoderWeights, name: str, rows: Floats) -> Floats:
    result: Floats = rows @ weights[name].T
    bias = weights.get(f"{name}.bias")
    return result if bias is None else result + bias


def _normed(config: EncoderConfig, weights: EncoderWeights, name: str, rows: Floats) -> Floats:
    centred = rows - rows.mean(axis=-1, keepdims=True)
    spread = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(config.epsilon))
    result: Floats = centred / spread * weights[name] + weights[f"{name}.bias"]
    return result


def _heads(config: EncoderConfig, rows: Floats) -> Floats:
    """Return rows [n, width] as [heads, n, width / heads]."""
    return rows.reshape(len(rows), config.heads, -1).swapaxes(0, 1)


def _attended(query: Floats, key: Floats, value: Floats) -> Floats:
    """Return the values that each token attends to, [heads, n, d]."""
    mixed, scale = np.empty_like(query), np.float32(query.shape[-1] ** -0.5)
    for head in range(len(query)):
        for first in range(0, query.shape[1], _ROWS):
            rows = slice(first, first + _ROWS)
            scores = query[head, rows] @ key[head].T * scale
            scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
            mixed[head, rows] = scores @ value[head] / scores.sum(axis=-1, keepdims=True)
    return mixed


def _rotated(rows: Floats, base: float) -> Floats:
    """Return heads turned by their positions; the halves of a head are pairs."""
    half = rows.shape[-1] // 2
    turns = np.outer(np.arange(rows.shape[1]), base ** -(np.arange(half) / half))
    cos, sin = np.cos(turns).astype(np.float32), np.sin(turns).astype(np.float32)
    left, right = rows[..., :half], rows[..., half:]
    return np.concatenate((left * cos - right * sin, right * cos + left * sin), axis=-1)


_SERIES = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)


def _gelu(x: Floats) -> Floats:
    """GELU by erf, to 2e-7 (Abramowitz and Stegun 7.1.26): numpy has no erf."""
    z = np.abs(x) * np.float32(2**-0.5)
    t = 1 / (1 + np.float32(0.3275911) * z)
    series = np.zeros_like(t)
    for factor in reversed(_SERIES):
        series = (series + np.float32(factor)) * t
    erf = np.copysign(1 - series * np.exp(-z * z), x)
    result: Floats = np.float32(0.5) * x * (1 + erf)
    return result


def _gelu_tanh(x: Floats) -> Floats:
    cube = np.float32((2 / np.pi) ** 0.5) * (x + np.float32(0.044715) * x * x * x)
    result: Floats = np.float32(0.5) * x * (1 + np.tanh(cube))
    return result


def _silu(x: Floats) -> Floats:
    with np.errstate(over="ignore"):
        result: Floats = x / (1 + np.exp(-x))
    return result


def _relu(x: Floats) -> Floats:
    return np.maximum(x, np.float32(0))


_ACTIVATIONS: dict[str, Callable[[Floats], Floats]] = {
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "silu": _silu,
    "relu": _relu,
}
