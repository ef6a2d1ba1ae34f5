"""Nodes expanded in one native call: what a forward and the sampler say, and what drafting says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from head_models import HEADS
from native_models import native_decoder
from tiny_models import write_model

from engine.backend.decoder import Decoder
from engine.backend.native.library import Format
from engine.backend.native.pool import CancelFlag
from engine.backend.ranking import best_ranked, rank
from engine.backend.round import Budget, DraftRequest
from engine.backend.sequence import ROOT, SequenceState
from engine.model.config import Fusion
from engine.request import SamplingParams
from engine.speculative.sampler import Sampler

Native = dict[Format, tuple[Decoder, Decoder]]
Found = Sequence[Sequence[tuple[int, float]]]

HOT = SamplingParams(temperature=0.8, seed=2**63 + 17)
SAMPLERS = {
    "greedy": Sampler(SamplingParams()),
    "sampled": Sampler(HOT),
    "noise of its own": Sampler(HOT, share_noise=False),
}


def filled(model: Decoder, length: int) -> SequenceState:
    state = model.new_state(200)
    model.forward(state, np.random.default_rng(7).integers(3, 300, length).tolist(), logit_rows=())
    state.commit(range(length))
    return state


def by_hand(
    model: Decoder,
    state: SequenceState,
    rows: tuple[list[int], list[int]],
    wanted: Sequence[int],
    sampler: Sampler,
    width: int,
) -> list[list[tuple[int, float]]]:
    """A forward, and the sampler's word on every row at its own position."""
    first = len(state.staged)
    logits = model.forward(state, *rows, logit_rows=wanted).logits
    found = []
    for place, row in enumerate(wanted):
        position, node = len(state), first + row
        while node != ROOT:
            position, node = position + 1, state.parents[node]
        found.append(list(best_ranked(rank(logits[place], position, sampler.ranking), width)))
    return found


def expanded(model: Decoder, *arguments: Any) -> Found | None:
    """Candidates of each wanted row; None where it was cancelled."""
    found = model.expand(*arguments)
    return None if found is None else found.candidates


def assert_alike(found: Found | None, expected: Found) -> None:
    assert found is not None
    assert [[token for token, _ in row] for row in found] == [
        [token for token, _ in row] for row in expected
    ]
    for row, right in zip(found, expected, strict=True):
        assert [weight for _, weight in row] == pytest.approx([w for _, w in right], abs=2e-5)


def assert_random_trees_expand(model: Decoder, sampler: Sampler) -> None:
    """Trees grown in several calls, over a border between chunks of keys, with settling between."""
    rng = np.random.default_rng(3)
    one, many = filled(model, 55), filled(model, 55)
    for _ in range(4):
        for _ in range(4):
            count, first = int(rng.integers(1, 9)), len(one.staged)
            tokens = rng.integers(3, 300, count).tolist()
            parents = [int(rng.integers(ROOT, first + row)) for row in range(count)]
            wanted = np.flatnonzero(rng.random(count) < 0.7).tolist()
            width = int(rng.integers(1, 7))
            rows = tokens, parents
            found = expanded(model, one, *rows, wanted, sampler.ranking, width, CancelFlag())
            assert_alike(found, by_hand(model, many, rows, wanted, sampler, width))
            assert list(one.staged) == list(many.staged)
            assert list(one.parents) == list(many.parents)
        path = [next(node for node, parent in enumerate(one.parents) if parent == ROOT)]
        below = [*path]
        for node in range(path[0] + 1, len(one.parents)):
            if one.parents[node] in below:
                below.append(node)
        for state in (one, many):
            state.settle(path, below[1:])


@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
@pytest.mark.parametrize("fmt", [Format.Q4, Format.Q8], ids=lambda fmt: fmt.name)
def test_one_call_is_a_forward_and_the_samplers_word(
    fmt: Format, sampler: Sampler, native: Native
) -> None:
    for model in native[fmt]:
        assert model.expands_trees
        assert_random_trees_expand(model, sampler)


def test_with_every_feature(featured: dict[str, Decoder]) -> None:
    for model in featured.values():
        assert_random_trees_expand(model, SAMPLERS["sampled"])


@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
def test_drafting_proposes_the_very_same(sampler: Sampler, native: Native) -> None:
    """All nodes of a drafted tree in one expansion: the same candidates, bit for bit."""
    model, pending, width = native[Format.Q4][1], [11, 12, 13], 4
    ranking = sampler.ranking
    state = filled(model, 60)
    tree = model.draft(state, DraftRequest(pending, ranking, Budget(1000, 5, width)))
    staged, parents = list(state.staged), list(state.parents)
    assert len(staged) == 4 * width

    fresh = filled(model, 60)
    last = len(pending) - 1
    rows = [*pending, *staged]
    above = [ROOT, 0, 1, *(last if parent == ROOT else 3 + parent for parent in parents)]
    found = expanded(model, fresh, rows, above, range(last, len(rows)), ranking, width)
    assert found is not None

    def drafted(node: int) -> list[tuple[int, float]]:
        """What the tree has below a node, with the scores of the paths."""
        children = [place for place, parent in enumerate(tree.parents) if parent == node]
        return sorted((tree.tokens[child], tree.scores[child]) for child in children)

    # The tree's nodes by the staged ones: those with the same token below the same parent.
    nodes = [0]
    for token, parent in zip(staged, parents, strict=True):
        below = 0 if parent == ROOT else nodes[1 + parent]
        nodes.append(
            next(
                place
                for place, (each, up) in enumerate(zip(tree.tokens, tree.parents, strict=True))
                if (each, up) == (token, below) and place not in nodes
            )
        )
    for node, candidates in zip(nodes, found, strict=True):
        score = tree.scores[node]
        expected = sorted((token, min(score + weight, score)) for token, weight in candidates)
        assert expected == drafted(node)


def test_many_rows_over_a_large_vocabulary(tmp_path: Path) -> None:
    """Rows are ranked a few at a time, each with the noise of its own position."""
    folder = write_model(tmp_path, hidden_size=32, num_hidden_layers=1, vocab_size=40000)
    model, sampler = native_decoder(folder, Format.Q4), SAMPLERS["sampled"]
    rows = list(range(300, 390)), [*range(-1, 69), *range(20)]
    one, many = filled(model, 20), filled(model, 20)
    found = expanded(model, one, *rows, range(90), sampler.ranking, 9)
    assert_alike(found, by_hand(model, many, rows, range(90), sampler, 9))


def test_a_vocabulary_of_fewer_tokens_than_asked_for(tmp_path: Path) -> None:
    model = native_decoder(write_model(tmp_path, vocab_size=40), Format.Q8)
    found = expanded(
        model, model.new_state(50), [3, 4], [-1, 0], (0, 1), SAMPLERS["sampled"].ranking, 64
    )
    assert found is not None
    assert [sorted(token for token, _ in row) for row in found] == [list(range(40))] * 2


def test_what_is_cancelled_leaves_nothing_staged(native: Native) -> None:
    model, flag = native[Format.Q8][0], CancelFlag()
    ranking = SAMPLERS["sampled"].ranking
    state = filled(model, 60)
    expected = expanded(model, filled(model, 60), [5, 6, 7], [-1, 0, 0], (1, 2), ranking, 3)
    first = expanded(model, state, [5], [-1], (), ranking, 3, flag)
    assert first == []
    flag.set()
    assert expanded(model, state, [9, 9], [0, 1], (0, 1), ranking, 3, flag) is None
    assert list(state.staged) == [5]
    assert list(state.parents) == [-1]
    assert model.forward(state, [8], [0]).logits.any(), "other forwards look at no flag"
    state.unstage(1)
    flag.clear()
    assert expanded(model, state, [6, 7], [0, 0], (0, 1), ranking, 3, flag) == expected


@pytest.mark.parametrize(
    ("wanted", "width"), [((0,), 0), ((0,), 65), ((1, 0), 3), ((0, 0), 3), ((2,), 3), ((-1,), 3)]
)
def test_what_is_refused_leaves_nothing_staged(
    wanted: tuple[int, ...], width: int, native: Native
) -> None:
    model = native[Format.Q8][0]
    state = filled(model, 20)
    with pytest.raises(ValueError, match=r"arguments|candidates"):
        expanded(model, state, [5, 6], [-1, 0], wanted, SAMPLERS["greedy"].ranking, width)
    assert not state.staged
    assert not state.parents


def test_others_expand_by_a_forward(tiny: Decoder, native: Native) -> None:
    """Other backends, and models whose features are kept for a head."""
    feeding = Decoder(native[Format.Q8][0].config, native[Format.Q8][0].segments)
    assert feeding.expands_trees
    fusion = HEADS["linear with bias"].fusion
    assert isinstance(fusion, Fusion)
    feeding.feed(fusion, feeding._account)
    cancelled = CancelFlag()
    cancelled.set()
    for model in (tiny, feeding):
        assert not model.expands_trees
        assert_random_trees_expand(model, SAMPLERS["sampled"])
        state = filled(model, 5)
        ranking = SAMPLERS["sampled"].ranking
        assert expanded(model, state, [5], [-1], (0,), ranking, 3, cancelled) is None
        assert not state.staged
