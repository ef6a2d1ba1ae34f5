"""Statistics of an answer in two stretches are those of one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from played_engine import stats

from engine.server.joined_stats import joined_stats


def test_counts_add_up_and_speeds_are_those_of_the_whole() -> None:
    first = replace(stats(6), drafted_by_depth=(2, 1), accepted_by_depth=(1, 1), rounds=3)
    then = replace(stats(11), rounds=4, plain_rounds=1, acceptance_length=3.0, ttft_s=9.0)
    both = joined_stats(first, then)
    assert (both.committed, both.drafted, both.accepted, both.rounds) == (17, 8, 6, 7)
    assert (both.drafted_by_depth, both.accepted_by_depth) == ((3, 1), (2, 1))
    assert both.acceptance_length == pytest.approx((2 * 2.5 + 3 * 3.0) / 5)
    assert both.tokens_per_s == pytest.approx(20.0)
    assert (both.ttft_s, both.prompt_tokens, both.reused_tokens) == (0.1, 5, 2)
    assert both.decode_seconds == pytest.approx(0.5)


def test_three_stretches_are_as_the_first_two_and_the_third() -> None:
    one, two, three = stats(4), stats(5), replace(stats(6), tokens_per_s=40.0)
    assert joined_stats(joined_stats(one, two), three).tokens_per_s == pytest.approx(80 / 3)


def test_a_stretch_without_a_word_counts_for_nothing() -> None:
    then = replace(stats(5), prompt_tokens=9)
    assert joined_stats(replace(stats(0), prompt_tokens=0), then) == then
