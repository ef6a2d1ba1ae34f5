"""Features beside a sequence: always those that a fresh run over its tokens would keep."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from numpy.typing import NDArray
from split_models import split_decoder
from tiny_models import write_model

from engine.backend.decoder import MAX_TREE, Decoder
from engine.backend.ledger import Account, Ledger, Purpose, unlimited
from engine.backend.prefix_cache import PrefixCache
from engine.backend.sequence import ROOT, FeatureStore, SequenceState
from engine.backend.torch_cpu.segment import TorchCpuBackend
from engine.model.config import Fusion
from engine.model.families import open_config
from engine.model.weights.model_weights import ModelWeights
from engine.model.weights.readable import Floats

CONTEXT = 96
FUSIONS = {
    "after the final norm": Fusion("dgf", 64),
    "three taps": Fusion("eagle3", 64, taps=(2, 0, 1)),
}
"""Taps as they are named, whatever their order, wherever they lie."""


def store(slots: int = 8, width: int = 4) -> FeatureStore:
    return FeatureStore(slots, width, unlimited())


def numbered(slots: Sequence[int], width: int = 4) -> Floats:
    """Rows that tell their slot."""
    return np.repeat(np.array(slots, dtype=np.float32)[:, None], width, axis=1)


def test_taps_lie_side_by_side() -> None:
    features = store()
    features.put(2, [numbered([1, 2], 1), numbered([3, 4], 2), numbered([5, 6], 1)])
    assert features.rows(2, 4).tolist() == [[1, 3, 3, 5], [2, 4, 4, 6]]


def test_rows_move_down_even_where_they_overlap() -> None:
    features = store()
    features.put(0, [numbered(range(8))])
    features.move([2, 3, 6], 1)
    assert features.rows(0, 4)[:, 0].tolist() == [0, 2, 3, 6]


def test_a_prefix_is_copied_and_no_more() -> None:
    one, other = store(), store()
    one.put(0, [numbered([5, 6, 7])])
    other.put(0, [numbered([1, 2, 3])])
    other.copy_prefix(one, 2)
    assert other.rows(0, 3)[:, 0].tolist() == [5, 6, 3]
    one.put(0, [numbered([9])])
    assert other.rows(0, 1)[0, 0] == 5


def test_half_precision_and_what_is_beyond_its_range() -> None:
    features = store(4, 1)
    features.put(0, [np.array([[1e9], [-1e9], [1 + 2**-12], [-(2**-26)]], dtype=np.float32)])
    assert features.rows(0, 4)[:, 0].tolist() == [65504, -65504, 1, 0]
    features.rows(0, 4)[:] = 3
    assert features.rows(2, 3)[0, 0] == 1, "what is handed out is a copy"


def test_they_are_entered_as_far_as_they_are_used() -> None:
    ledger = Ledger("cpu", "")
    features = FeatureStore(4096, 256, Account(ledger, "target"))
    assert features.nbytes == 4096 * 256 * 2
    (line,) = ledger.lines()
    assert (line.purpose, line.nbytes) == (Purpose.FEATURES, features.nbytes)
    assert line.touched < 8192
    features.put(0, [np.ones((1000, 256), dtype=np.float32)])
    (line,) = ledger.lines()
    assert 1000 * 512 <= line.touched < 1000 * 512 + 8192


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Decoder]:
    """The same small model in one segment and in two, for a head of either kind."""
    folder = write_model(tmp_path_factory.mktemp("target"))
    return {
        f"{name}, cut at {borders}": fed(folder, borders, fusion)
        for name, fusion in FUSIONS.items()
        for borders in ((), (1,))
    }


def fed(folder: Path, borders: Sequence[int], fusion: Fusion) -> Decoder:
    config = open_config(folder)
    weights = ModelWeights.of_folder(config, folder)
    target = split_decoder(config, weights, borders, TorchCpuBackend())
    target.feed(fusion, unlimited())
    return target


def features_of(state: SequenceState, count: int | None = None) -> Floats:
    assert state.features is not None
    return state.features.rows(0, len(state) if count is None else count)


def fresh(target: Decoder, tokens: Sequence[int]) -> Floats:
    state = target.new_state(CONTEXT)
    if tokens:
        target.forward(state, tokens, logit_rows=())
    return features_of(state, len(tokens))


TOKENS = list(range(10, 70))


def test_they_are_the_outputs_that_the_head_asked_for(targets: dict[str, Decoder]) -> None:
    for name, target in targets.items():
        state = target.new_state(CONTEXT)
        forward = target.forward(state, TOKENS, taps=(0, 1, 2))
        taps = [forward.taps[block] for block in (2, 0, 1)] if "taps" in name else [forward.hidden]
        expected = np.concatenate(taps, axis=1).astype(np.float16).astype(np.float32)
        assert np.array_equal(features_of(state, len(TOKENS)), expected), name


def test_wherever_the_target_lies_they_are_the_same(targets: dict[str, Decoder]) -> None:
    for fusion in FUSIONS:
        whole, split = (fresh(targets[f"{fusion}, cut at {cut}"], TOKENS) for cut in ((), (1,)))
        assert np.array_equal(whole, split)


@pytest.mark.parametrize("chunk", [1, 7, 16, 59])
def test_prefill_in_pieces(chunk: int, targets: dict[str, Decoder]) -> None:
    for name, target in targets.items():
        state = target.new_state(CONTEXT)
        for start in range(0, len(TOKENS), chunk):
            piece = TOKENS[start : start + chunk]
            target.forward(state, piece, logit_rows=())
            state.commit(range(len(piece)))
        assert np.array_equal(features_of(state), fresh(target, TOKENS)), name


def test_a_pool_hands_them_on_with_the_keys(targets: dict[str, Decoder]) -> None:
    for name, target in targets.items():
        pool = PrefixCache(target, CONTEXT, 1 << 30)
        first = pool.take(TOKENS)
        target.forward(first, TOKENS, logit_rows=())
        first.commit(range(len(TOKENS)))
        edited = [*TOKENS[:40], 5, 6, 7]
        second = pool.take(edited)
        assert second is not first
        assert len(second) == 40
        target.forward(second, edited[40:], logit_rows=())
        second.commit(range(3))
        assert np.array_equal(features_of(second), fresh(target, edited)), name
        assert np.array_equal(features_of(first), fresh(target, TOKENS)), name


def test_a_model_without_a_head_keeps_none(tiny: Decoder) -> None:
    state = tiny.new_state(CONTEXT)
    tiny.forward(state, TOKENS)
    assert state.features is None


class Sequences(RuleBasedStateMachine):
    """Two states of a target that grow by trees, go back, and begin with each other's tokens."""

    targets: dict[str, Decoder]
    known: dict[tuple[str, tuple[int, ...]], NDArray[np.float32]]

    @initialize(
        name=st.sampled_from([f"{fusion}, cut at {c}" for fusion in FUSIONS for c in ((), (1,))])
    )
    def begin(self, name: str) -> None:
        self.name, self.target = name, self.targets[name]
        self.states = [self.target.new_state(CONTEXT) for _ in range(2)]
        self.changed = False

    @rule(
        which=st.integers(0, 1),
        tokens=st.lists(st.integers(3, 319), min_size=1, max_size=20),
        data=st.data(),
    )
    def stage(self, which: int, tokens: list[int], data: st.DataObject) -> None:
        state = self.states[which]
        there = len(state.staged)
        if there + len(tokens) > MAX_TREE or len(state) + there + len(tokens) > state.slots:
            return
        if there and data.draw(st.booleans(), label="a chain"):
            self.target.forward(state, tokens, logit_rows=())
            return
        nodes = range(there, there + len(tokens))
        parents = [data.draw(st.integers(ROOT, node - 1)) for node in nodes]
        self.target.forward(state, tokens, parents, logit_rows=())

    @precondition(lambda self: any(state.staged for state in self.states))
    @rule(which=st.integers(0, 1), data=st.data())
    def commit(self, which: int, data: st.DataObject) -> None:
        state = self.states[which]
        node = data.draw(st.integers(ROOT, len(state.staged) - 1), label="leaf")
        path: list[int] = []
        while node != ROOT:
            path.insert(0, node)
            node = state.parents[node]
        state.commit(path[: state.context - len(state)])
        self.changed = True

    @rule(which=st.integers(0, 1), length=st.integers(0, CONTEXT))
    def crop(self, which: int, length: int) -> None:
        state = self.states[which]
        state.crop(state.reusable(length))
        self.changed = True

    @rule(which=st.integers(0, 1), length=st.integers(0, CONTEXT))
    def copy(self, which: int, length: int) -> None:
        state, other = self.states[which], self.states[1 - which]
        state.copy_prefix(other, min(length, len(other)))
        self.changed = True

    @invariant()
    def features_are_those_of_a_fresh_run(self) -> None:
        if not getattr(self, "changed", False):
            return
        self.changed = False
        for state in self.states:
            tokens = tuple(state.tokens)
            key = self.name, tokens
            if key not in self.known:
                self.known[key] = fresh(self.target, tokens)
            assert np.array_equal(features_of(state), self.known[key])


def test_whatever_becomes_of_a_sequence(targets: dict[str, Decoder]) -> None:
    Sequences.targets, Sequences.known = targets, {}
    run = Sequences.TestCase
    run.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
    run("runTest").debug()
