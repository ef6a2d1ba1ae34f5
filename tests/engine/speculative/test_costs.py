"""What is believed of a target's forwards while other programs come and go."""

from __future__ import annotations

from itertools import islice

from virtual_time import busy

from engine.speculative.costs import VerifyCosts

SIZES, SECONDS = (1, 2, 4), (1.0, 1.1, 1.3)


def test_sizes_are_told_apart_however_busy_the_machine_is() -> None:
    costs = VerifyCosts(SIZES, SECONDS)
    for slower in (1.0, 3.0):
        for _ in range(200):
            costs.observe(1, 1.0 * slower, opening=False)
            costs.observe(4, 2.0 * slower, opening=False)
        assert abs(costs.of(4) / costs.of(1) - 2.0) < 0.05
        assert abs(costs.of(4) * costs.slowdown / (2.0 * slower) - 1) < 0.05


def test_a_row_of_forwards_of_one_size_says_nothing_of_the_others() -> None:
    costs = VerifyCosts(SIZES, SECONDS)
    costs.observe(4, 1.3, opening=False)
    costs.observe(1, 1.0, opening=False)
    before = costs.of(4) / costs.of(1)
    for slower in islice(busy(1), 3000):
        costs.observe(1, slower, opening=False)
    assert costs.of(4) / costs.of(1) == before


def test_one_hiccup_is_soon_forgotten() -> None:
    costs = VerifyCosts(SIZES, SECONDS)
    for seconds in (1.0, 1.0, 50.0, 1.0, 1.0):
        costs.observe(1, seconds, opening=False)
    assert costs.slowdown < 1.15


def test_the_first_forward_behind_a_prompt_is_no_measure_of_later_ones() -> None:
    costs = VerifyCosts(SIZES, SECONDS)
    assert not costs.measured
    costs.observe(1, 1.0, opening=True)
    assert costs.measured
    costs.observe(4, 9.0, opening=True)
    assert (costs.slowdown, costs.of(4)) == (1.0, 1.3)
