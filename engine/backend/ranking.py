"""The ranking of a draft's candidates: by its probabilities, with the target's own noise."""

from __future__ import annotations

import numpy as np

from engine.backend.noise import noise
from engine.backend.round import Candidates, Ranking
from engine.model.weights.readable import Floats

COLDEST, HOTTEST = 1e-4, 1e4
"""Range of temperatures; others are clamped to it."""


def rank(logits: Floats, position: int, ranking: Ranking) -> Floats:
    """Return a draft's ranking at `position`: fp32 logprobs, as many as logits.

    Args:
        logits: fp32 [..., vocab], the draft's.
        position: position of the drafted tokens.
        ranking: the target's temperature and noise, with which candidates rank as it would draw
            (drafter-invariant speculative decoding, arXiv 2408.07978).

    A row in which no token is possible gives no numbers.
    """
    scores = logits.astype(np.float64)
    with np.errstate(invalid="ignore"):  # rows in which nothing is possible
        scores -= scores.max(axis=-1, keepdims=True)
    if ranking.temperature:
        scores /= min(max(ranking.temperature, COLDEST), HOTTEST)
        if ranking.share_noise:
            scores += noise(ranking.seed, position + ranking.shift, logits.shape[-1])
    top = scores.max(axis=-1, keepdims=True)
    scores -= top + np.log(np.exp(scores - top).sum(axis=-1, keepdims=True))
    return scores.astype(np.float32)


def best_ranked(logprobs: Floats, width: int) -> Candidates:
    """Return the `width` tokens of the best rank.

    Args:
        logprobs: fp32 [vocab]; what is no number is no candidate.
        width: most tokens.
    """
    logprobs = np.where(np.isnan(logprobs), -np.inf, logprobs)
    top = np.argpartition(logprobs, -min(width, len(logprobs)))[-width:]
    order = top[np.argsort(-logprobs[top], kind="stable")]
    return [(int(token), float(logprobs[token])) for token in order if logprobs[token] > -np.inf]
