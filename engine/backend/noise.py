"""Gumbel noise keyed by (seed, position, token id): the randomness of sampling.

Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) is a pure
function of a counter and a key. So the noise of a token at a position is the same in every loop,
on every device, for target and draft alike, whatever was drawn before.

A token has 32 random bits. What that costs: a token of probability p wins where its share of the
unit interval, about p wide, holds one of 2^32 evenly spaced points. So a draw errs by at most
2^-33 per token in its probability, and never draws one far below that; over a vocabulary of 152k
that is less than 2e-5 in total variation, and nothing that a hundred million draws could show.

engine/native/noise.h does the same, bit for bit: every step is one IEEE operation.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_ROUNDS = 10

_SQRT_HALF = np.int64(0x3FE6A09E667F3BCD)  # as bits of a float64
_LN_2 = 0.6931471805599453

WHOLE_ROW_LIMIT = 32768
"""Up to this vocabulary the noise of a position is computed once for all tokens and kept."""


def philox4x32(
    counter: tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]],
    key: tuple[int, int],
) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]]:
    """Four 32-bit words (held in uint64) per counter of four 32-bit words."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        product0, product1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            (product1 >> _SHIFT) ^ c1 ^ np.uint64(k0),
            product1 & _LOW,
            (product0 >> _SHIFT) ^ c3 ^ np.uint64(k1),
            product0 & _LOW,
        )
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFFFFFF, (k1 + _WEYL[1]) & 0xFFFFFFFF
    return c0, c1, c2, c3


def log(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Natural logarithm of normal numbers > 0, to about 1e-16; the same on every machine.

    x = 2^k m with m in [sqrt 1/2, sqrt 2), and ln m = 2 artanh s by its series in
    s = (m - 1) / (m + 1).
    """
    bits = x.view(np.int64)
    k = (bits - _SQRT_HALF) >> 52
    f = (bits - (k << 52)).view(np.float64) - 1.0
    s = f / (2.0 + f)
    z = s * s
    series = np.full_like(s, 1.0 / 21)
    for odd in range(19, 0, -2):
        series = series * z + 1.0 / odd
    return np.asarray(k * _LN_2 + (s + s) * series, dtype=np.float64)


def words(seed: int, position: int, ids: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The 32 random bits of each token id; 64 neighbours share 16 counters of four words."""
    counters = (ids // 64 * 16 + ids % 16).astype(np.uint64)
    zero = np.zeros_like(counters)
    four = philox4x32(
        (counters, zero + np.uint64(position), zero, zero), (seed & 0xFFFFFFFF, seed >> 32)
    )
    return np.choose(ids // 16 % 4, four)


def gumbel(seed: int, position: int, ids: NDArray[np.int64]) -> NDArray[np.float64]:
    """Standard Gumbel noise, one number per token id, in [-3.2, 22.9]."""
    # Centred, so that neither 0 nor 1 comes up.
    uniform = (words(seed, position, ids).astype(np.float64) + 0.5) * 2.0**-32
    return -log(-log(uniform))


@lru_cache(maxsize=64)
def gumbel_row(seed: int, position: int, vocab_size: int) -> NDArray[np.float64]:
    """The noise of the whole vocabulary at one position, kept: draft and target both ask for it."""
    row = gumbel(seed, position, np.arange(vocab_size, dtype=np.int64))
    row.setflags(write=False)
    return row


def noise(
    seed: int, position: int, vocab_size: int, ids: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    """Return the noise of some token ids at a position, or of the whole vocabulary."""
    if vocab_size <= WHOLE_ROW_LIMIT:
        row = gumbel_row(seed, position, vocab_size)
        return row if ids is None else row[ids]
    return gumbel(seed, position, np.arange(vocab_size, dtype=np.int64) if ids is None else ids)
