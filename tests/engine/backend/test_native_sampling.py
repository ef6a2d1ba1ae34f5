"""The native sampler gives numpy's tokens, on every instruction set and for every thread count."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from harness import SAMPLINGS
from numpy.typing import NDArray

from engine.backend.native.library import instruction_sets, library
from engine.backend.native.pool import ThreadPool
from engine.backend.native.sampling import NativeDraws
from engine.backend.ranking import rank
from engine.backend.tree import TokenTree
from engine.errors import InvalidLogits
from engine.request import SamplingParams
from engine.speculative.decoding import verify
from engine.speculative.sampler import Sampler

Floats = NDArray[np.float32]

ISAS = instruction_sets()
pytestmark = pytest.mark.usefixtures("isa_as_before")
LARGE = 151_936

PARAMS = {
    **SAMPLINGS,
    "top-k": SamplingParams(temperature=1.0, top_k=3),
    "many": SamplingParams(temperature=1.0, top_k=300, top_p=0.99),
    "top-p": SamplingParams(temperature=0.9, top_p=0.8),
    "top-p hot": SamplingParams(temperature=3.0, top_p=0.8),
    "nearly all": SamplingParams(temperature=1.2, top_p=1 - 1e-12),
    "min-p": SamplingParams(temperature=1.5, min_p=0.1),
    "best only": SamplingParams(temperature=1.0, min_p=1.0, top_p=1e-9),
    "freezing": SamplingParams(temperature=5e-324, top_p=0.9),
    "boiling": SamplingParams(temperature=1e300, top_k=50),
    "absurd penalties": SamplingParams(
        temperature=0.5, repetition_penalty=1e30, presence_penalty=-2.0, frequency_penalty=1e38
    ),
}


def rows(rng: np.random.Generator, vocab: int) -> dict[str, Floats]:
    """Logits of every kind: smooth, tied, masked, huge, tiny, sorted."""
    usual = rng.normal(0, 3, vocab)
    masked = np.where(rng.random(vocab) < 0.5, -np.inf, usual)
    masked[rng.integers(vocab)] = 1.0
    cliff = rng.normal(np.log(0.3 / vocab), 0.01, vocab)  # one token, and a tail of 0.3 times that
    cliff[rng.integers(vocab)] = 0.0
    kinds = {
        "usual": usual,
        "flat": rng.normal(0, 0.01, vocab),
        "tied": np.round(usual),
        "all equal": np.full(vocab, -2.5),
        "signed zeros": rng.choice([0.0, -0.0], vocab),
        "masked": masked,
        "cliff": cliff,
        "offset": usual + 1e7,
        "huge": usual * 1e37,
        "tiny": usual * 1e-40,
        "falling": -np.sort(-usual),
    }
    return {kind: row.astype(np.float32) for kind, row in kinds.items()}


def outcome(sampler: Sampler, row: Floats, tokens: list[int], path: list[int]) -> int | None:
    try:
        return sampler.draw(row, tokens, path)
    except InvalidLogits:  # a penalty can be too much for a float
        return None


@pytest.mark.release(keep=6, reason="every sampling")
@pytest.mark.parametrize("params", PARAMS.values(), ids=PARAMS)
def test_numpy_and_native_draw_the_same(params: SamplingParams) -> None:
    rng = np.random.default_rng(len(repr(params)))
    for isa, vocab in product(ISAS, (1, 2, 15, 17, 64, 255, 257, 1000, 8500)):
        library().dt_use_isa(isa)
        for kind, row in rows(rng, vocab).items():
            drawn = replace(params, seed=int(rng.integers(2**63)))
            tokens = rng.integers(0, vocab, rng.integers(1, 12)).tolist()
            path = rng.integers(0, vocab, rng.integers(0, 3)).tolist()
            ours, theirs = (Sampler(drawn, 4, native=native) for native in (True, False))
            case = (isa.name, vocab, kind, drawn.seed)
            assert outcome(ours, row, tokens, path) == outcome(theirs, row, tokens, path), case


@pytest.mark.parametrize("name", ["greedy", "sampled", "sampled filtered", "top-p", "min-p"])
def test_one_draw_on_a_large_vocabulary(name: str) -> None:
    rng = np.random.default_rng(5)
    row = rng.normal(0, 2.5, LARGE).astype(np.float32)
    tokens = rng.integers(0, LARGE, 500).tolist()
    drawn = {Sampler(PARAMS[name], 100, native=False).draw(row, tokens)}
    for isa, threads in product(ISAS, (1, 2, 3)):
        library().dt_use_isa(isa)
        native = NativeDraws(PARAMS[name], LARGE, 100, pool=ThreadPool(threads))
        drawn.add(native.draw(row, tokens))
    assert len(drawn) == 1, drawn


@pytest.mark.parametrize("params", PARAMS.values(), ids=PARAMS)
def test_numpy_and_native_walk_the_same(params: SamplingParams) -> None:
    """Round after round with one sampler, as an answer does it."""
    rng = np.random.default_rng(1)
    ours, theirs = (Sampler(params, 3, native=native) for native in (True, False))
    tokens, vocab, accepted = [1, 2, 3], 12, 0
    for _ in range(30):
        nodes = [
            (int(rng.integers(0, node + 1)), int(rng.integers(0, 4)), -float(rng.random()))
            for node in range(int(rng.integers(0, 12)))
        ]
        tree = TokenTree.build(tokens[-1], nodes)
        logits = rng.normal(0, 1, (len(tree), vocab)).astype(np.float32)
        logits[:, :4] += 6
        limit, stop_ids = int(rng.integers(1, 6)), tuple(rng.integers(0, 9, 1).tolist())
        done = verify(tree, logits, ours, tokens, limit=limit, stop_ids=stop_ids)
        assert done == verify(tree, logits, theirs, tokens, limit=limit, stop_ids=stop_ids)
        accepted += done.accepted
        tokens.extend(done.tokens)
    assert accepted, "the trees were never right"


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("params", [SamplingParams(), SAMPLINGS["sampled filtered"]])
def test_numbers_that_are_none_are_found_wherever_they_are(
    params: SamplingParams, bad: float
) -> None:
    sampler = Sampler(params, native=True)
    tree = TokenTree.build(7, [(0, 5, -0.1)])
    for place in (0, 63, 299):
        logits = np.zeros((2, 300), dtype=np.float32)
        logits[0, 5] = 50
        logits[1, place] = bad
        with pytest.raises(InvalidLogits):
            verify(tree, logits, sampler, [7], limit=4)
    with pytest.raises(InvalidLogits):
        sampler.draw(np.full(300, -np.inf, dtype=np.float32), [7])
    # What the walk had counted is forgotten.
    assert sampler.draw(logits[0], [7]) == 5


def test_tokens_are_counted_once_and_another_list_afresh() -> None:
    params = SamplingParams(frequency_penalty=1.0)
    sampler = Sampler(params, native=True)
    row = np.array([3.5, 2.0, 0.0], dtype=np.float32)
    tokens = [2]
    answers = []
    for _ in range(4):
        answers.append(sampler.draw(row, tokens))
        tokens.append(0)
    assert answers == [0, 0, 1, 1]
    assert sampler.draw(row, [2]) == 0
    assert sampler.draw(row, tokens) == 1
    del tokens[1:]
    assert sampler.draw(row, tokens) == 0, "tokens that are gone were counted"


@pytest.mark.parametrize("name", ["greedy", "sampled", "sampled hot"])
@pytest.mark.parametrize("shared", [True, False])
def test_ranking(name: str, *, shared: bool) -> None:
    rng = np.random.default_rng(2)
    for vocab, width in ((5, 3), (1000, 8), (30_000, 64)):
        logits = rng.normal(0, 3, (3, vocab)).astype(np.float32)
        sampler = Sampler(PARAMS[name], share_noise=shared, native=False)
        weights = rank(logits, 9, sampler.ranking)
        expected = np.argsort(-weights, axis=1, kind="stable")[:, :width]
        seen = set()
        for isa, threads in product(ISAS, (1, 2, 3)):
            library().dt_use_isa(isa)
            draws = NativeDraws(PARAMS[name], vocab, share_noise=shared, pool=ThreadPool(threads))
            tokens, found = draws.rank(logits, 9, width)
            np.testing.assert_array_equal(tokens, expected)
            np.testing.assert_allclose(found, np.take_along_axis(weights, expected, 1), atol=3e-3)
            seen.add(found.tobytes())
        assert len(seen) == 1


def test_of_equal_tokens_the_lower_ranks_first() -> None:
    logits = np.zeros((1, 20_000), dtype=np.float32)
    logits[0, [19_000, 9_000, 40]] = 1
    tokens, _ = NativeDraws(SamplingParams(), 20_000).rank(logits, 0, 5)
    assert tokens.tolist() == [[40, 9_000, 19_000, 0, 1]]


def test_a_row_with_few_numbers_ranks_those() -> None:
    logits = np.array([[1.0, np.nan, -np.inf, 2.0], [np.nan] * 4], dtype=np.float32)
    tokens, weights = NativeDraws(SamplingParams(), 4).rank(logits, 0, 3)
    assert tokens.tolist() == [[3, 0, -1], [-1, -1, -1]]
    np.testing.assert_allclose(np.exp(weights).sum(axis=1), [1, 0], rtol=1e-5)
