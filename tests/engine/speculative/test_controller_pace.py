"""How far from the best the controller is, from the first tokens on: pairs on paper."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from simulated_pairs import Course, Pair, best_fixed, speed

from engine.backend.round import Budget
from engine.plan.plan import BUCKETS, WIDTHS, Expectation
from engine.speculative.controller import Controller


def rows(*seconds: float) -> Callable[[int], float]:
    """Seconds of forwards over so many rows, from those over BUCKETS."""
    return lambda count: float(np.interp(count, BUCKETS, seconds))


PROCESSOR = rows(1, 1.03, 1.1, 1.3, 2.0, 3.6)
ACCELERATOR = rows(1, 1.01, 1.02, 1.04, 1.1, 1.3)

PAIRS = {
    "all on the processor": Pair(PROCESSOR, lambda width: 0.1 + 0.006 * width, 0.75),
    "a poor draft": Pair(PROCESSOR, lambda width: 0.25 + 0.015 * width, 0.45),
    "a useless draft": Pair(PROCESSOR, lambda _: 0.3, 0.15),
    "dovetail": Pair(PROCESSOR, lambda _: 0.02, 0.72),
    "an overconfident draft": Pair(PROCESSOR, lambda _: 0.02, 0.72, confidence=0.6),
    "all on the accelerator": Pair(ACCELERATOR, lambda _: 0.08, 0.72),
    "rows that cost": Pair(rows(1, 1.5, 2.3, 3.8, 6.5, 12), lambda _: 0.05, 0.8),
}
BUDGETS = [
    Budget(nodes, depth, width)
    for depth in (1, 2, 3, 4, 6, 9)
    for nodes in (1, 3, 7, 15)
    for width in (1, 2, 4)
    if depth <= nodes <= depth * width * width
]


def expected(pair: Pair, slower: float, worse: float) -> Expectation:
    """What a plan would say that is wrong by some factors."""
    return Expectation(
        tuple(pair.verify(size) * slower for size in BUCKETS),
        tuple(pair.level(width) / slower for width in WIDTHS),
        pair.acceptance * worse,
    )


WRONG = {"right": (1.0, 1.0), "hopeful": (0.75, 1.2), "fearful": (1.35, 0.8)}
LEAST = {16: 0.74, 64: 0.78, 256: 0.82}
"""Share of the best fixed budget's speed that every pair reaches; the means are far higher."""


@pytest.mark.release(reason="thousands of rounds for each")
@pytest.mark.parametrize("wrong", WRONG)
def test_short_answers_are_fast_as_well(wrong: str) -> None:
    shares: dict[int, list[float]] = {tokens: [] for tokens in LEAST}
    for name, pair in PAIRS.items():
        best = BEST.setdefault(name, best_fixed(pair, BUDGETS))
        told = expected(pair, *WRONG[wrong])
        for tokens, found in shares.items():
            rate = speed(pair, partial(Controller, told), tokens, 768 // tokens)
            found.append(rate / best)
            assert found[-1] > LEAST[tokens], (name, tokens)
    for tokens, least in ((16, 0.87), (64, 0.9), (256, 0.91)):
        assert np.mean(shares[tokens]) > least, tokens


BEST: dict[str, float] = {}


@pytest.mark.release(reason="thousands of rounds")
def test_nobody_has_told_what_to_expect() -> None:
    for name, pair in PAIRS.items():
        best = BEST.setdefault(name, best_fixed(pair, BUDGETS))
        assert speed(pair, Controller, 256, 3) > 0.75 * best, name


def test_the_first_tree_is_about_as_large_as_expected_and_none_is_wider_than_told() -> None:
    few = Expectation((1.0,) * len(BUCKETS), (0.1, 0.1, 0.1), 0.7, nodes=6, depth=4)
    budget, first = (Controller(told, forced=True).next_budget(30) for told in (few, None))
    assert budget is not None
    assert first is not None
    assert (budget.nodes, budget.width) == (7, 4)
    assert (first.nodes, first.width) == (15, 10)


def test_width_that_brings_nothing_is_given_up() -> None:
    """Chains are all that is kept where a node's likeliest child is nearly sure."""
    sure = Pair(PROCESSOR, lambda width: 0.02 * width, 0.95, spread=50.0)
    torn = Pair(ACCELERATOR, lambda _: 0.02, 0.4)
    widths = []
    for pair in (sure, torn):
        controller, course = (
            Controller(expected(pair, 1, 1)),
            Course(pair, np.random.default_rng(1)),
        )
        controller.begin()
        for _ in range(100):
            budget = controller.next_budget(50)
            course.play(controller, budget)
            widths.append(budget.width if budget else 0)
    assert np.median(widths[60:100]) == 1
    assert np.median(widths[160:]) >= 4
