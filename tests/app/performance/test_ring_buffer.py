"""The ring buffer against a plain list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.performance.series import RingBuffer

ROWS = st.lists(st.tuples(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9)), max_size=60)


@given(capacity=st.integers(1, 12), before=ROWS, after=ROWS)
def test_equals_a_list_cut_to_capacity(
    capacity: int, before: list[tuple[float, float]], after: list[tuple[float, float]]
) -> None:
    ring = RingBuffer(capacity, columns=2)
    for rows in (before, after):
        naive: list[tuple[float, float]] = []
        for row in rows:
            ring.append(*row)
            naive.append(row)
            assert ring.view().tolist() == [list(r) for r in naive[-capacity:]]
            assert len(ring) == min(len(naive), capacity)
        ring.clear()
        assert len(ring) == 0
        assert ring.view().shape == (0, 2)


def test_view_is_contiguous_and_cannot_be_written() -> None:
    ring = RingBuffer(3)
    for value in range(5):
        ring.append(value)
    view = ring.view()
    assert view.flags.c_contiguous
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    ring.append(9)
    assert ring.view()[:, 0].tolist() == [3, 4, 9]


@pytest.mark.parametrize(("capacity", "columns"), [(0, 1), (1, 0)])
def test_no_room_is_refused(capacity: int, columns: int) -> None:
    with pytest.raises(ValueError, match="room"):
        RingBuffer(capacity, columns)
