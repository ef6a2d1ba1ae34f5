"""What is believed of a target's forwards while other programs come and go."""

from __future__ import annotations

from itertools import islice

from virtual_time import busy

from engine.decode.estimates import Forwards

SIZES, SECONDS = (1, 2, 4), (1.0, 1.1, 1.3)


def test_sizes_are_told_apart_whatever_the_pace_is() -> None:
    forwards = Forwards(SIZES, SECONDS)
    for pace in (1.0, 3.0):
        for _ in range(200):
            forwards.add(1, 1.0 * pace, opening=False)
            forwards.add(4, 2.0 * pace, opening=False)
        assert abs(forwards.of(4) / forwards.of(1) - 2.0) < 0.05
        assert abs(forwards.of(4) * forwards.pace / (2.0 * pace) - 1) < 0.05


def test_a_row_of_forwards_of_one_size_says_nothing_of_the_others() -> None:
    forwards = Forwards(SIZES, SECONDS)
    forwards.add(4, 1.3, opening=False)
    forwards.add(1, 1.0, opening=False)
    before = forwards.of(4) / forwards.of(1)
    for slower in islice(busy(1), 3000):
        forwards.add(1, slower, opening=False)
    assert forwards.of(4) / forwards.of(1) == before


def test_one_hiccup_is_soon_forgotten() -> None:
    forwards = Forwards(SIZES, SECONDS)
    for seconds in (1.0, 1.0, 50.0, 1.0, 1.0):
        forwards.add(1, seconds, opening=False)
    assert forwards.pace < 1.15


def test_the_first_forward_behind_a_prompt_is_no_measure_of_later_ones() -> None:
    forwards = Forwards(SIZES, SECONDS)
    assert not forwards.measured
    forwards.add(1, 1.0, opening=True)
    assert forwards.measured
    forwards.add(4, 9.0, opening=True)
    assert (forwards.pace, forwards.of(4)) == (1.0, 1.3)
