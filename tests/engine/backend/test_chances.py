"""What the target gave the tokens of a round: a softmax of its bare logits for any sampler."""

from __future__ import annotations

import numpy as np
import pytest
from harness import SAMPLINGS
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.backend.native.library import Isa, instruction_sets, library
from engine.backend.native.sampling import NativeDraws
from engine.backend.round import Verified, VerifyRequest
from engine.backend.tree import TokenTree
from engine.speculative.decoding import verify
from engine.speculative.sampler import Sampler

ISAS = instruction_sets()
pytestmark = pytest.mark.usefixtures("isa_as_before")

Floats = NDArray[np.float32]


def softmax(logits: Floats) -> NDArray[np.float64]:
    weights = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)  # type: ignore[no-any-return]


def assert_told(done: Verified, tree: TokenTree, logits: Floats) -> None:
    shares = softmax(logits)
    own = [shares[node][token] for node, token in zip(done.path, done.tokens, strict=True)]
    np.testing.assert_allclose(done.chances, own, rtol=1e-4, atol=1e-8)
    if done.offered == done.accepted:
        assert done.refused is None
        return
    first = tree.child(done.path[-1])
    assert first is not None
    assert done.refused is not None
    assert done.refused == pytest.approx(
        shares[done.path[-1]][tree.tokens[first]], rel=1e-4, abs=1e-8
    )


def a_tree(rng: np.random.Generator, logits: Floats, nodes: int) -> TokenTree:
    """Likely tokens of each node's row, so that some are drawn."""
    drafted: list[tuple[int, int, float]] = []
    for node in range(1, nodes):
        parent = int(rng.integers(node))
        likely = np.argsort(-logits[parent])[:4]
        drafted.append((parent, int(rng.choice(likely)), -float(node)))
    return TokenTree.build(1, drafted)


@pytest.mark.release(keep=4, reason="every sampling")
@pytest.mark.parametrize("name", SAMPLINGS)
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("vocab", [5, 257, 8500, 40_000])
def test_native_and_numpy_tell_the_softmax(name: str, isa: Isa, vocab: int) -> None:
    library().dt_use_isa(isa)
    rng = np.random.default_rng(vocab)
    for spread in (0.01, 3.0, 30.0):
        logits = rng.normal(0, spread, (9, vocab)).astype(np.float32)
        logits[:, rng.integers(vocab, size=vocab // 3)] = -np.inf
        logits[np.arange(9), rng.integers(vocab, size=9)] = 3 * spread
        tree = a_tree(rng, logits, 9)
        rows = np.ascontiguousarray(logits[: len(tree)])
        for native in (True, False):
            sampler = Sampler(SAMPLINGS[name], native=native)
            assert_told(verify(tree, rows, sampler, [3, 2, 1], limit=9), tree, rows)


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**32),
    nodes=st.integers(1, 12),
    limit=st.integers(1, 12),
    stop=st.booleans(),
)
def test_the_walk_and_what_is_told_of_it_agree(
    seed: int, nodes: int, limit: int, stop: bool
) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 3, (nodes, 40)).astype(np.float32)
    tree = a_tree(rng, logits, nodes)
    rows = np.ascontiguousarray(logits[: len(tree)])
    stops = (int(logits[0].argmax()),) if stop else ()
    told = [
        verify(tree, rows, Sampler(SAMPLINGS["greedy"], native=native), [1], limit=limit,
               stop_ids=stops)
        for native in (True, False)
    ]  # fmt: skip
    assert told[0] == told[1]
    for done in told:
        assert len(done.chances) == len(done.tokens)
        assert_told(done, tree, rows)


def test_a_token_that_the_target_does_not_know_is_nothing_to_it() -> None:
    logits = np.zeros((2, 12), dtype=np.float32)
    tree = TokenTree.build(1, [(0, 70, -1.0)])
    for native in (True, False):
        done = verify(tree, logits, Sampler(SAMPLINGS["greedy"], native=native), [1], limit=2)
        assert (done.tokens, done.offered, done.refused) == ((0,), 1, None)
        assert done.chances == pytest.approx((1 / 12,))


def test_a_library_that_tells_no_chances(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was built from older sources knows nothing of where they go."""
    draws = NativeDraws(SAMPLINGS["greedy"], 12)
    monkeypatch.setattr(draws.asked, "chances", None)
    done = draws.verify(VerifyRequest((1,), (-1,), [1], 1), np.zeros(12, dtype=np.float32))
    assert (done.tokens, done.chances, done.refused) == ((0,), (), None)
