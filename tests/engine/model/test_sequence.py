"""SequenceState: staging, committing, going back."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.backend.segment import SegmentCache
from engine.backend.step import CHUNK
from engine.model.sequence import ROOT, SequenceState


class SlotCache:
    """A cache that remembers which token lies in which slot."""

    def __init__(self) -> None:
        self.slots: dict[int, int] = {}

    @property
    def nbytes(self) -> int:
        return 1

    def reusable(self, slots: int) -> int:
        return slots

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
    path: list[int] = []
    node = data.draw(st.integers(ROOT, len(parents) - 1))
    while node != ROOT:
        path.insert(0, node)
        node = parents[node]
    state.commit(path)
    assert list(state.tokens) == [*range(1000, 1000 + committed), *path]
    assert [cache.slots[slot] for slot in range(len(state))] == list(state.tokens)
    assert not state.staged


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
