"""Rule 3.2: a row's result depends on the row and its path alone, bit for bit."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from engine.backend.decoder import Decoder
from engine.backend.sequence import ROOT, SequenceState
from engine.backend.torch_cpu import tiles

LENGTH = 150
"""Across two borders between attention chunks."""

SOME = ((1, 7), (3, 512))
"""Threads and tokens of a prefill's forwards."""
EVERY = ((1, 1), (1, 7), (1, 64), (1, 512), (2, 7), (2, 512), (3, 7), (3, 512))


@pytest.fixture(autouse=True)
def _threads_as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def prompt(decoder: Decoder, length: int = LENGTH) -> list[int]:
    return np.random.default_rng(7).integers(3, decoder.config.vocab_size, length).tolist()


def prefilled(decoder: Decoder, chunk: int, state: SequenceState | None = None) -> SequenceState:
    state = state or decoder.new_state(640)
    tokens = prompt(decoder)
    for start in range(0, LENGTH, chunk):
        piece = tokens[start : start + chunk]
        decoder.forward(state, piece, logit_rows=())
        state.commit(range(len(piece)))
    return state


def chain_logits(decoder: Decoder, state: SequenceState, path: list[int]) -> np.ndarray:
    """One token per forward: what plain decoding computes."""
    rows = []
    for token in path:
        rows.append(decoder.forward(state, [token]).logits[0].copy())
        state.commit([0])
    state.crop(LENGTH)
    return np.stack(rows)


def tree_logits(decoder: Decoder, state: SequenceState, path: list[int]) -> np.ndarray:
    """The same path inside a shuffled tree with siblings, over several forwards."""
    rng = np.random.default_rng(3)
    tokens, parents, place = [path[0]], [-1], [0]
    for depth in range(1, len(path)):
        for _ in range(int(rng.integers(0, 3))):
            tokens.append(int(rng.integers(3, decoder.config.vocab_size)))
            parents.append(int(rng.integers(0, len(tokens) - 1)))
        parents.append(place[depth - 1])
        tokens.append(path[depth])
        place.append(len(tokens) - 1)
    logits: list[np.ndarray] = []
    start = 0
    while start < len(tokens):
        size = int(rng.integers(1, 12))
        piece = slice(start, min(start + size, len(tokens)))
        logits.extend(decoder.forward(state, tokens[piece], parents[piece]).logits.copy())
        start = piece.stop
    state.discard()
    return np.stack([logits[node] for node in place])


def after_commit_logits(decoder: Decoder, state: SequenceState, path: list[int]) -> np.ndarray:
    """Half of the path committed out of a tree (keys are moved), the rest computed behind it."""
    half = len(path) // 2
    tokens, parents = [9, path[0]], [-1, -1]
    for depth in range(1, half):
        tokens += [11 + depth, path[depth]]
        parents += [2 * depth - 1, 2 * depth - 1]
    first = decoder.forward(state, tokens, parents).logits[1::2].copy()
    state.commit(range(1, 2 * half, 2))
    rest = decoder.forward(state, path[half:]).logits
    state.discard()
    state.crop(LENGTH)
    return np.concatenate((first, rest))


def settled_logits(decoder: Decoder, state: SequenceState, path: list[int]) -> np.ndarray:
    """Committed piece by piece out of a tree that stays staged and goes on growing."""
    logits: list[np.ndarray] = []
    last = ROOT  # the path's last node
    for done in range(0, len(path), 4):
        for token in path[done : done + 4]:
            # A rival before it and one after, so that what stays staged has to move.
            rows = [11, token, 13]
            found = decoder.forward(state, rows, [last, last, ROOT], logit_rows=(1,)).logits
            logits.append(found[0].copy())
            last = len(state.staged) - 2
        chain: list[int] = []
        while last != ROOT:
            chain.insert(0, last)
            last = state.parents[last]
        behind = chain[2:] if done + 4 < len(path) else []
        state.settle(chain[: len(chain) - len(behind)], behind)
        last = len(behind) - 1
    state.crop(LENGTH)
    return np.stack(logits)


def fingerprint(logits: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(logits).tobytes()).hexdigest()


_LATER = pytest.mark.release(reason="every pair and model")


@pytest.mark.parametrize(
    "pairs",
    [pytest.param(SOME, id="some pairs"), pytest.param(EVERY, marks=_LATER, id="every pair")],
)
@pytest.mark.parametrize(
    "model",
    [
        *("tiny", "tiny_draft", "gemma"),
        *(pytest.param(name, marks=_LATER) for name in ("odd", "experts", "phi", "trained")),
    ],
)
def test_one_hash_over_chunks_trees_threads_and_reuse(
    model: str, pairs: tuple[tuple[int, int], ...], request: pytest.FixtureRequest
) -> None:
    decoder: Decoder = request.getfixturevalue(model)
    path = prompt(decoder, 12)[::-1]
    reused = prefilled(decoder, 100)
    hashes = {}
    for threads, chunk in pairs:
        torch.set_num_threads(threads)
        reused.crop(LENGTH // 3)
        cases = {"fresh": prefilled(decoder, chunk), "reused": reused}
        tokens = prompt(decoder)[len(reused) :]
        decoder.forward(reused, tokens, logit_rows=())
        reused.commit(range(len(tokens)))
        for kind, state in cases.items():
            for shape in (chain_logits, tree_logits, after_commit_logits, settled_logits):
                logits = shape(decoder, state, path)
                hashes[threads, chunk, kind, shape.__name__] = fingerprint(logits)
    assert len(set(hashes.values())) == 1, hashes


def test_a_row_alone_equals_the_row_among_others(tiny: Decoder) -> None:
    state = prefilled(tiny, 64)
    together = tiny.forward(state, [5, 6, 7, 8, 9], [-1] * 5).logits.copy()
    state.discard()
    for row, token in enumerate([5, 6, 7, 8, 9]):
        alone = tiny.forward(state, [token]).logits
        state.discard()
        assert np.array_equal(alone[0], together[row])


def test_without_invariant_products_a_tile_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """A BLAS that treats rows unlike must cost speed, not exactness."""
    monkeypatch.setattr(tiles, "_product_is_row_invariant", lambda *_shape: False)
    assert tiles.tile_rows({(64, 64)}, group=2, head_dim=16) == 1


def test_the_check_notices_rows_that_are_treated_unlike(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = torch.Tensor.__matmul__

    def uneven(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        product = honest(left, right)
        product[-1] *= 1 + 1e-6
        return product

    monkeypatch.setattr(torch.Tensor, "__matmul__", uneven)
    assert not tiles._product_is_row_invariant.__wrapped__(48, 96)
