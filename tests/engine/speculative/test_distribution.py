"""Sampling through trees follows the target's filtered distribution (chi-square tests).

Power: with 6,000 draws and 20 cells, a shift of 4 % of the probability mass between two cells of
equal size (chi-square noncentrality about 48) is found with a probability above 0.99 at the level
used here. The seeds are fixed, so the tests do not flicker.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from engine.backend.tree import TokenTree
from engine.request import SamplingParams
from engine.speculative.decoding import verify
from engine.speculative.sampler import Sampler

VOCAB, DRAWS, LEVEL = 24, 6000, 1e-3
TOKENS = [3, 5, 5, 7, 9, 9, 9, 2]
"""Committed tokens; the answer starts at the third."""

LOGITS = np.random.default_rng(0).normal(0, 1.6, (3, VOCAB)).astype(np.float32)
"""At the root, after LIKELY, after SECOND."""

SECOND, LIKELY = np.argsort(LOGITS[0])[-2:].tolist()


def distribution(
    params: SamplingParams, logits: NDArray[np.float32], history: list[int]
) -> NDArray[np.float64]:
    """The definition, written down a second time and without cleverness."""
    scores = logits.astype(np.float64).copy()
    for token in set(history):
        factor = params.repetition_penalty
        scores[token] = scores[token] / factor if scores[token] > 0 else scores[token] * factor
    answer = history[2:]
    for token in set(answer):
        scores[token] -= params.presence_penalty + params.frequency_penalty * answer.count(token)
    allowed = list(range(VOCAB))
    allowed.sort(key=lambda token: -scores[token])
    if params.top_k:
        allowed = allowed[: params.top_k]
    chances = np.exp(scores[allowed] - scores[allowed].max())
    chances /= chances.sum()
    if params.top_p < 1:
        count = next(i for i in range(len(allowed)) if chances[: i + 1].sum() >= params.top_p) + 1
        allowed, chances = allowed[:count], chances[:count]
    kept = [t for t, p in zip(allowed, chances, strict=True) if p >= params.min_p * chances[0]]
    result = np.zeros(VOCAB)
    result[kept] = np.exp(scores[kept] / params.temperature)
    return result / result.sum()


def assert_follows(counts: NDArray[np.int64], expected: NDArray[np.float64]) -> None:
    assert counts[expected == 0].sum() == 0, "a filtered token was drawn"
    total = counts.sum()
    big = expected * total >= 5
    observed = [*counts[big], counts[~big].sum()]
    wanted = [*(expected[big] * total), expected[~big].sum() * total]
    if wanted[-1] < 1:
        observed, wanted = observed[:-1], wanted[:-1]
        wanted = list(np.array(wanted) * sum(observed) / sum(wanted))
    assert stats.chisquare(observed, wanted).pvalue > LEVEL


CASES = {
    "temperature": SamplingParams(temperature=0.7),
    "hot": SamplingParams(temperature=1.5),
    "top-p and penalties": SamplingParams(
        temperature=0.8,
        top_p=0.9,
        repetition_penalty=1.3,
        presence_penalty=0.5,
        frequency_penalty=0.4,
    ),
    "top-k and min-p": SamplingParams(temperature=1.3, top_k=10, min_p=0.05),
}


@pytest.mark.release(keep=1, reason="every sampling")
@pytest.mark.parametrize("params", CASES.values(), ids=CASES)
def test_first_and_second_token_through_a_tree_with_siblings(params: SamplingParams) -> None:
    tree = TokenTree.build(TOKENS[-1], [(0, LIKELY, -0.1), (0, SECOND, -0.2), (1, 4, -0.5)])
    rows = {tree.tokens.index(LIKELY): 1, tree.tokens.index(SECOND): 2}
    logits = np.stack([LOGITS[rows.get(node, 0)] for node in range(len(tree))])
    first = np.zeros(VOCAB, dtype=np.int64)
    second = {token: np.zeros(VOCAB, dtype=np.int64) for token in (LIKELY, SECOND)}
    for seed in range(DRAWS):
        sampler = Sampler(replace(params, seed=seed), answer_start=2)
        drawn = verify(tree, logits, sampler, TOKENS, limit=2).tokens
        first[drawn[0]] += 1
        if drawn[0] in second:
            second[drawn[0]][drawn[1]] += 1
    assert_follows(first, distribution(params, LOGITS[0], TOKENS))
    for row, token in ((1, LIKELY), (2, SECOND)):
        assert_follows(second[token], distribution(params, LOGITS[row], [*TOKENS, token]))


def test_positions_and_neighbouring_seeds_are_independent() -> None:
    pairs = np.zeros((2, 2), dtype=np.int64)
    flat = np.zeros(2, dtype=np.float32)
    for seed in range(4000):
        sampler = Sampler(SamplingParams(temperature=1.0, seed=seed))
        neighbour = Sampler(SamplingParams(temperature=1.0, seed=seed + 1))
        pairs[sampler.draw(flat, [0]), neighbour.draw(flat, [0, 0])] += 1
    assert stats.chi2_contingency(pairs).pvalue > LEVEL
    assert stats.chisquare(pairs.ravel()).pvalue > LEVEL
