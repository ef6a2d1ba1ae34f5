"""The heights against the simplest thing that can be right: a list that is added up."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from app.chat.messages.row_heights import RowHeights

HEIGHTS = st.lists(st.integers(0, 900), max_size=60)


def _agrees(heights: RowHeights, naive: list[int]) -> None:
    tops = list(accumulate(naive, initial=0))
    assert len(heights) == len(naive)
    assert heights.total == sum(naive)
    assert [heights.top(row) for row in range(len(naive) + 1)] == tops
    assert [heights[row] for row in range(len(naive))] == naive
    for y in {*tops, *(top - 1 for top in tops), *(top + 3 for top in tops)} if naive else ():
        expected = min(max(bisect_right(tops, y) - 1, 0), len(naive) - 1)
        assert heights.row_at(y) == expected
        assert heights.place(heights.anchor_at(y)) == y


@given(HEIGHTS, st.lists(st.tuples(st.sampled_from("emt"), st.integers(0, 99), HEIGHTS)))
def test_it_agrees_with_a_list(start: list[int], steps: list[tuple[str, int, list[int]]]) -> None:
    heights, naive = RowHeights(start), list(start)
    _agrees(heights, naive)
    for kind, number, more in steps:
        if kind == "e":
            heights.extend(more)
            naive.extend(more)
        elif kind == "t":
            keep = number % (len(naive) + 1)
            heights.truncate(keep)
            del naive[keep:]
        elif naive:
            row = number % len(naive)
            height = sum(more)
            assert heights.measure(row, height) == height - naive[row]
            naive[row] = height
        _agrees(heights, naive)


@given(HEIGHTS.filter(bool), st.integers(0, 50_000), st.lists(st.integers(0, 900), min_size=1))
def test_what_changes_above_does_not_move_an_anchor(
    start: list[int], y: int, measured: list[int]
) -> None:
    heights = RowHeights(start)
    anchor = heights.anchor_at(y)
    before = heights.place(anchor) - heights.top(anchor.row)
    moved = sum(heights.measure(row, height) for row, height in enumerate(measured[: anchor.row]))
    assert heights.place(anchor) == y + moved
    assert heights.place(anchor) - heights.top(anchor.row) == before


def test_rows_of_no_height_are_passed_over() -> None:
    heights = RowHeights([0, 0, 40, 0, 10])
    assert heights.row_at(0) == 2
    assert heights.row_at(40) == 4
    assert heights.row_at(-5) == 0
    assert heights.row_at(1_000) == 4
