"""The target's noise, computed on a device: engine/backend/noise.py in torch.

The bits of Philox are the same; what is made of them is fp32, within some 1e-6 of the CPU's: a
draft's ranking may turn where two tokens are that close, which costs nothing but a rejection.
"""

from __future__ import annotations

import torch

ROUNDS = 10
"""Of Philox; each has two keys."""
_WORD = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)


def round_keys(seed: int) -> list[int]:
    """Two 32-bit words for every round, the first one's first."""
    words = seed & _WORD, seed >> 32 & _WORD
    return [
        (word + number * weyl) & _WORD
        for number in range(ROUNDS)
        for word, weyl in zip(words, _WEYL, strict=True)
    ]


def gumbel(keys: torch.Tensor, positions: torch.Tensor, count: int) -> torch.Tensor:
    """Standard Gumbel noise of the first tokens, fp32 [positions, count].

    Args:
        keys: int32 [20], the bits of `round_keys`.
        positions: int64 [positions].
        count: tokens.
    """
    return of_words(words(keys, positions, count))


def of_words(word: torch.Tensor) -> torch.Tensor:
    """The noise that random words of 32 bits, int64 of any shape, stand for, in fp32."""
    # The half of the unit interval that is nearer to 1 is counted from there: fp32 is denser at 0.
    upper = word > _WORD // 2
    near = torch.where(upper, _WORD - word, word).float().add_(0.5).mul_(2.0**-32)
    return torch.where(upper, near.neg().log1p_(), near.log()).neg_().log_().neg_()


def words(keys: torch.Tensor, positions: torch.Tensor, count: int) -> torch.Tensor:
    """The 32 random bits of each token at each position, int64 [positions, count].

    Sixty-four neighbours share 16 counters of four words: token 64 g + 16 j + i has word j of
    counter 16 g + i. Products of 32-bit words are taken modulo 2^64, as integers wrap around.
    """
    groups = -(-count // 64)
    shape = len(positions), groups * 16
    key = (keys.long() & _WORD).view(ROUNDS, 2)
    c0 = torch.arange(groups * 16, dtype=torch.int64, device=keys.device).expand(shape)
    c1 = (positions & _WORD).unsqueeze(1).expand(shape)
    c2 = c3 = torch.zeros(shape, dtype=torch.int64, device=keys.device)
    for number in range(ROUNDS):
        a, b = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0 = (b >> 32 & _WORD) ^ c1 ^ key[number, 0]
        c2 = (a >> 32 & _WORD) ^ c3 ^ key[number, 1]
        c1, c3 = b & _WORD, a & _WORD
    four = [word.view(-1, groups, 16) for word in (c0, c1, c2, c3)]
    return torch.stack(four, dim=2).view(len(positions), -1)[:, :count]
