"""SequenceState: staging, committing, going back."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from random import Random
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.backend.segment import SegmentCache
from engine.backend.sequence import ROOT, SequenceState
from engine.backend.step import CHUNK


class SlotCache(SegmentCache):
    """A cache that remembers which token lies in which slot."""

    def __init__(self) -> None:
        self.slots: dict[int, int] = {}

    @property
    def nbytes(self) -> int:
        return 1

    def copy_prefix(self, other: SegmentCache, slots: int) -> None:
        assert isinstance(other, SlotCache)
        self.slots = {slot: token for slot, token in other.slots.items() if slot < slots}

    def move(self, sources: Sequence[int], target: int) -> None:
        moved = [self.slots[source] for source in sources]
        for offset, token in enumerate(moved):
            self.slots[target + offset] = token


def staged(state: SequenceState, cache: SlotCache, tokens: list[int], parents: list[int]) -> None:
    step = state.stage(tokens, parents)
    for row, token in enumerate(tokens):
        cache.slots[step.first_slot + row] = token


def path_to(parents: Sequence[int], node: int) -> list[int]:
    path: list[int] = []
    while node != ROOT:
        path.insert(0, node)
        node = parents[node]
    return path


@st.composite
def trees(draw: st.DrawFn) -> list[int]:
    count = draw(st.integers(1, 20))
    return [draw(st.integers(ROOT, node - 1)) for node in range(count)]


@given(committed=st.integers(0, 200), parents=trees(), data=st.data())
def test_a_committed_path_lies_in_order_and_nothing_else_stays(
    committed: int, parents: list[int], data: st.DataObject
) -> None:
    cache = SlotCache()
    state = SequenceState([cache], context=300, tree=32)
    if committed:
        staged(state, cache, list(range(1000, 1000 + committed)), list(range(-1, committed - 1)))
        state.commit(range(committed))
    tokens = list(range(len(parents)))
    staged(state, cache, tokens, parents)
    path = path_to(parents, data.draw(st.integers(ROOT, len(parents) - 1)))
    state.commit(path)
    assert list(state.tokens) == [*range(1000, 1000 + committed), *path]
    assert [cache.slots[slot] for slot in range(len(state))] == list(state.tokens)
    assert not state.staged


@given(committed=st.integers(0, 100), seed=st.integers(0, 2**32))
def test_what_settles_lies_in_order_and_what_is_kept_behind_it(committed: int, seed: int) -> None:
    """Against a model that knows a staged node by its whole history."""
    rng, fresh = Random(seed), count(1000)
    cache = SlotCache()
    state = SequenceState([cache], context=1000, tree=200)
    written = list(range(committed))
    if committed:
        staged(state, cache, written, list(range(-1, committed - 1)))
        state.commit(range(committed))
    histories: list[list[int]] = []  # tokens from the committed ones to each staged node
    for _ in range(5):
        tokens = [next(fresh) for _ in range(rng.randint(1, 12))]
        first = len(histories)
        parents = [rng.randint(ROOT, first + row - 1) for row in range(len(tokens))]
        staged(state, cache, tokens, parents)
        for parent, token in zip(parents, tokens, strict=True):
            histories.append([*(histories[parent] if parent != ROOT else []), token])
        gone = rng.randint(0, min(3, len(histories)))
        state.unstage(gone)
        del histories[len(histories) - gone :]

        last = rng.randint(ROOT, len(histories) - 1)
        prefix = [] if last == ROOT else histories[last]
        dropped = {history[-1] for history in histories if rng.random() < 0.2}
        keep = [
            node
            for node, history in enumerate(histories)
            if history[: len(prefix)] == prefix and node > last
            if dropped.isdisjoint(history[len(prefix) :])
        ]
        state.settle(path_to(state.parents, last), keep)
        written += prefix
        histories = [histories[node][len(prefix) :] for node in keep]

        assert list(state.tokens) == written
        found = [path_to(state.parents, node) for node in range(len(state.parents))]
        assert [[state.staged[node] for node in path] for path in found] == histories
        held = [cache.slots[slot] for slot in range(len(state) + len(state.staged))]
        assert held == [*written, *state.staged]


@pytest.mark.parametrize(
    ("path", "keep"),
    [
        ([0], [0]),  # the path itself
        ([0, 3], [2]),  # staged before the path's end
        ([0], [1]),  # a sibling
        ([0], [4]),  # its parent goes
        ([0], [3, 2]),  # out of order
        ([0], [2, 2]),
        ([0], [9]),
        ([], [2]),
        ([3], []),
    ],
)
def test_what_cannot_stay_is_refused(path: list[int], keep: list[int]) -> None:
    state = SequenceState([], context=20, tree=10)
    state.stage([1, 2, 3, 4, 5], [ROOT, ROOT, 0, 0, 2])
    with pytest.raises(ValueError, match="path"):
        state.settle(path, keep)
    assert list(state.staged) == [1, 2, 3, 4, 5]
    assert not state.tokens


def test_no_more_can_be_unstaged_than_is_staged() -> None:
    state = SequenceState([], context=20, tree=10)
    state.stage([1, 2])
    for many in (3, -1):
        with pytest.raises(ValueError, match="staged"):
            state.unstage(many)
    state.unstage(2)
    assert not state.parents


def test_nothing_moves_that_lies_in_place() -> None:
    class Recording(SlotCache):
        moves: ClassVar[list[tuple[list[int], int]]] = []

        def move(self, sources: Sequence[int], target: int) -> None:
            self.moves.append((list(sources), target))

    state = SequenceState([Recording()], context=20, tree=10)
    state.stage([1, 2, 3, 4, 5, 6], [ROOT, 0, 1, 1, 2, 3])
    state.settle([0, 1], [2, 3, 4])
    assert not Recording.moves
    state.settle([], [1])
    assert Recording.moves == [([3], 2)]


@given(committed=st.integers(0, 200), parents=trees())
def test_every_row_finds_its_own_path_by_position(committed: int, parents: list[int]) -> None:
    state = SequenceState([], context=300, tree=32)
    if committed:
        state.stage([7] * committed)
        state.commit(range(committed))
    step = state.stage([5] * len(parents), parents)
    for row in range(len(parents)):
        expected: list[int] = []
        node = row
        while node != ROOT:
            expected.insert(0, committed + node)
            node = parents[node]
        assert step.positions[row] == committed + len(expected) - 1
        if step.tree is None:
            assert expected == list(range(committed, committed + len(expected)))
            continue
        base = step.tree.base
        assert base % CHUNK == 0
        assert base <= committed
        slots = step.tree.slots[step.tree.row_path[row]]
        visible = slots[: step.positions[row] + 1 - base].tolist()
        assert visible == [*range(base, committed), *expected]


def test_what_cannot_be_is_refused() -> None:
    state = SequenceState([], context=4, tree=2)
    with pytest.raises(ValueError, match="at least one"):
        state.stage([])
    with pytest.raises(ValueError, match="parent"):
        state.stage([1, 2], [0, ROOT])
    with pytest.raises(ValueError, match="room"):
        state.stage([1] * 7)
    state.stage([1, 2, 3], [ROOT, ROOT, 0])
    with pytest.raises(ValueError, match="path"):
        state.commit([1, 2])
    state.commit([0, 2])
    state.stage([4, 5, 6])
    with pytest.raises(ValueError, match="full"):
        state.commit([0, 1, 2])


def test_common_prefix_and_crop() -> None:
    state = SequenceState([], context=10, tree=2)
    state.stage([1, 2, 3, 4])
    state.commit(range(4))
    assert state.common_prefix([1, 2, 9]) == 2
    assert state.common_prefix([1, 2, 3, 4, 5]) == 4
    assert state.common_prefix([]) == 0
    assert state.reusable(9) == 4
    state.stage([5])
    state.crop(2)
    assert list(state.tokens) == [1, 2]
    assert not state.staged
