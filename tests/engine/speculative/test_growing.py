"""Trees grown level by level are trees, whatever the logits: ties, certainty, impossibility."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from riddles import VOCAB, RiddleCache, riddle_head

from engine.backend.decoder import Decoder
from engine.backend.ranking import best_ranked
from engine.backend.round import Budget, DraftRequest
from engine.backend.segment import SegmentCache, SegmentOutput
from engine.backend.step import Step
from engine.backend.tree import ROOT_PARENT, TokenTree
from engine.model.weights.readable import Floats
from engine.request import SamplingParams
from engine.speculative.sampler import Sampler

TOKENS = 6

numbers = st.one_of(
    st.sampled_from([0.0, 1.0, -1.0, -np.inf, 80.0, 3e4]), st.floats(-9, 9, width=32)
)
"""Few different ones, so that they tie."""
rows = st.lists(numbers, min_size=TOKENS, max_size=TOKENS)


class Dictated:
    """A segment that says what it is told, row by row, over and over."""

    blocks = range(1)
    device = signature = "paper"
    weight_bytes = mapped_bytes = 0
    expands = False

    def __init__(self, said: Sequence[Sequence[float]]) -> None:
        self._said, self._row = said, 0

    def new_cache(self, slots: int) -> RiddleCache:
        return RiddleCache(slots)

    def run(self, step: Step, cache: SegmentCache, hidden: Floats | None) -> SegmentOutput:
        del cache, hidden
        wanted = range(len(step.tokens)) if step.logit_rows is None else step.logit_rows
        logits = []
        for _ in wanted:
            logits.append(self._said[self._row % len(self._said)])
            self._row += 1
        output = np.zeros((len(step.tokens), 2), dtype=np.float32)
        return SegmentOutput(output, np.array(logits, dtype=np.float32), {})


def assert_is_ranked_tree(tree: TokenTree, budget: Budget) -> None:
    assert tree.drafted <= budget.nodes
    assert max(tree.depths) <= budget.depth
    assert list(tree.scores) == sorted(tree.scores, reverse=True)
    assert all(np.isfinite(tree.scores))
    assert tree.parents[0] == ROOT_PARENT
    seen = set()
    for node in range(1, len(tree)):
        parent = tree.parents[node]
        assert 0 <= parent < node
        assert tree.scores[node] <= tree.scores[parent]
        assert (parent, tree.tokens[node]) not in seen
        seen.add((parent, tree.tokens[node]))
    assert all(len(below) <= budget.width for below in tree.children())


budgets = st.builds(
    Budget,
    nodes=st.integers(0, 40),
    depth=st.integers(1, 5),
    width=st.integers(1, 10),
    floor=st.sampled_from([0.0, 0.3, 1.0, 2.0]),
)
samplings = st.sampled_from([SamplingParams(), SamplingParams(temperature=0.7, seed=9)])


@settings(deadline=None)
@given(said=st.lists(rows, min_size=1, max_size=12), budget=budgets, params=samplings)
@example(said=[[-np.inf] * TOKENS], budget=Budget(9, 3, 3), params=SamplingParams())
@example(said=[[np.nan] * TOKENS], budget=Budget(9, 3, 3), params=SamplingParams(temperature=1.0))
@example(said=[[0.0] * TOKENS], budget=Budget(9, 3, 10), params=SamplingParams())
def test_whatever_a_draft_says(
    said: list[list[float]], budget: Budget, params: SamplingParams
) -> None:
    config = riddle_head().config
    draft = Decoder(config, [Dictated(said)])
    state, tokens = draft.new_state(30), [3, 4, 5]
    features = np.zeros((3, 2), dtype=np.float32)
    tree = draft.grow(state, DraftRequest(tokens, Sampler(params).ranking, budget, features))
    assert_is_ranked_tree(tree, budget)
    assert list(state.tokens) == tokens
    for most in range(tree.drafted):
        assert_is_ranked_tree(tree.best(most), Budget(most, budget.depth, budget.width))


@settings(deadline=None)
@given(said=st.lists(rows, min_size=1, max_size=12), budget=budgets, params=samplings)
def test_a_few_tokens_of_many(
    said: list[list[float]], budget: Budget, params: SamplingParams
) -> None:
    """A head's rows stand for tokens of its target, and no others are proposed."""
    config, ids = riddle_head().config, np.array([2, 3, 20, 21, 22, VOCAB - 1])
    draft = Decoder(config, [Dictated(said)], ids)
    features = np.zeros((1, 2), dtype=np.float32)
    tree = draft.grow(
        draft.new_state(30), DraftRequest([2], Sampler(params).ranking, budget, features)
    )
    assert_is_ranked_tree(tree, budget)
    assert set(tree.tokens[1:]) <= set(ids.tolist())


def test_what_is_no_number_is_no_candidate() -> None:
    weights = np.array([[np.nan, -1, -np.inf, -2], [np.nan] * 4], dtype=np.float32)
    assert best_ranked(weights[0], 3) == [(1, -1.0), (3, -2.0)]
    assert best_ranked(weights[1], 3) == []
