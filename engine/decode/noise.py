"""Gumbel noise keyed by (seed, position, token id): the randomness of sampling.

Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) is a pure
function of a counter and a key. So the noise of a token at a position is the same in every loop,
on every device, for target and draft alike, whatever was drawn before.
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


def gumbel(seed: int, position: int, ids: NDArray[np.int64]) -> NDArray[np.float64]:
    """Standard Gumbel noise, one number per token id."""
    words = ids.astype(np.uint64)
    zero = np.zeros_like(words)
    counter = (words, zero + np.uint64(position), zero, zero)
    high, low, _, _ = philox4x32(counter, (seed & 0xFFFFFFFF, seed >> 32))
    # 53 random bits, centred so that neither 0 nor 1 comes up.
    uniform = ((high << np.uint64(21)) | (low >> np.uint64(11))).astype(np.float64)
    uniform = (uniform + 0.5) * 2.0**-53
    return np.asarray(-np.log(-np.log(uniform)), dtype=np.float64)


@lru_cache(maxsize=64)
def gumbel_row(seed: int, position: int, vocab_size: int) -> NDArray[np.float64]:
    """The noise of the whole vocabulary at one position, kept: draft and target both ask for it."""
    row = gumbel(seed, position, np.arange(vocab_size, dtype=np.int64))
    row.setflags(write=False)
    return row
