"""The parallel loop's decisions: what a step takes along, when to wait, what is verified."""

from __future__ import annotations

from dataclasses import replace
from math import log

import pytest

from engine.backend.tree import TokenTree
from engine.speculative.controller import best_part
from engine.speculative.pacing import LaneCosts, pace, worth_waiting

FLAT = LaneCosts(verify=lambda _: 1.0, step=lambda _: 0.1, rate=2.0, goes_on=0.7)
CHAIN = TokenTree((1, 2, 3, 4), (-1, 0, 1, 2), tuple(i * log(0.5) for i in range(4)))


def test_all_is_verified_where_rows_cost_nothing() -> None:
    flat = {"verify": lambda _: 1.0, "rate": 2.0, "trust": 1.0}
    assert best_part(CHAIN, **flat) == CHAIN
    assert best_part(TokenTree.root(3), **flat, least=1) == TokenTree.root(3)


def test_rows_that_cost_more_than_they_promise_are_left_out() -> None:
    def verify(rows: int) -> float:
        return 0.8 + 0.2 * rows

    assert best_part(CHAIN, verify, rate=2.0, trust=1.0) == CHAIN.best(1)  # a row costs 0.4 tokens
    assert best_part(CHAIN, verify, rate=2.0, trust=0.5).drafted == 0
    assert best_part(CHAIN, verify, rate=2.0, trust=0.5, least=1) == CHAIN.best(1)
    assert best_part(CHAIN, verify, rate=1.0, trust=1.0) == CHAIN.best(2)


def test_waiting_is_for_steps_that_promise_more_than_their_time() -> None:
    assert worth_waiting(FLAT, promise=1.0, left=0.1)
    assert not worth_waiting(FLAT, promise=0.1, left=0.1)
    assert not worth_waiting(FLAT, promise=1.0, left=0.5)
    assert not worth_waiting(replace(FLAT, trust=0.1), promise=1.0, left=0.1)


def test_the_target_does_not_wait_for_a_slow_draft() -> None:
    assert not worth_waiting(replace(FLAT, step=lambda _: 1.0, rate=1.3), promise=1.0, left=1.0)


@pytest.mark.parametrize("rate", [0.0, 2.0])
def test_nothing_known_is_no_reason_to_wait(rate: float) -> None:
    nothing = LaneCosts(verify=lambda _: 0.0, step=lambda _: 0.0, rate=rate)
    assert not worth_waiting(nothing, promise=1.0, left=0.1)
    assert pace(nothing).width >= 1


def test_steps_are_wider_where_breadth_is_cheap() -> None:
    free, dear = pace(FLAT), pace(replace(FLAT, step=lambda nodes: 0.1 * nodes))
    assert free.width > 1
    assert free.theta < 1
    assert dear.width == 1
    assert dear.theta == 1


def test_the_price_of_breadth_is_weighed_against_a_verification() -> None:
    """The same dear breadth, of a draft that is fast and of one that is slow."""
    fast = replace(FLAT, step=lambda nodes: 0.02 * (1 + 0.3 * (nodes - 1)))
    slow = replace(FLAT, step=lambda nodes: 0.5 * (1 + 0.3 * (nodes - 1)))
    assert pace(fast).theta == pytest.approx(0.3)
    assert pace(slow).theta > 0.7


def test_drafting_goes_no_further_ahead_than_verifications_let_it() -> None:
    slow = replace(FLAT, step=lambda nodes: 0.5 * nodes)
    assert pace(slow).ahead < pace(FLAT).ahead
    assert not pace(FLAT, overlap=False).overlap


def test_in_turns_a_step_is_worth_more_as_it_would_be_lost() -> None:
    """A path that surely goes on is drafted beside the verification as well."""
    sure = replace(FLAT, step=lambda _: 0.3, goes_on=0.95)
    assert not worth_waiting(sure, promise=1.0, left=0.3)
    assert worth_waiting(sure, promise=1.0, left=0.3, overlap=False)
