"""What drafting brings, against the table and the simulation of the notes on the two papers."""

from __future__ import annotations

from itertools import accumulate
from math import prod
from random import Random

import numpy as np
import pytest
from played_lanes import (
    BREADTHS,
    COSTS,
    FIRST,
    MISSED,
    ChanceScript,
    Times,
    simulate_trace,
    tokens_per_verification,
)

from engine.plan import both_lanes
from engine.plan.cost import DEEPEST, ROWS
from engine.plan.throughput import (
    NEXT_CHOICE,
    expected_tokens,
    in_trees,
    parallel,
    plain,
    serial,
    tree_tokens,
)

FLAT = np.ones((DEEPEST + 1, 1))
FLAT_TREES = np.ones((len(ROWS), 1))
"""Verification costs the same for all numbers of rows."""


@pytest.mark.parametrize(
    ("acceptance", "share", "best"),
    [(0.5, 0.10, 1.46), (0.7, 0.10, 1.98), (0.8, 0.10, 2.47), (0.8, 0.20, 1.87), (0.9, 0.33, 1.77)],
)
def test_serial_drafting(acceptance: float, share: float, best: float) -> None:
    assert serial(FLAT, share, acceptance).tokens_per_s[0] == pytest.approx(best, abs=0.01)


@pytest.mark.parametrize(
    ("place", "acceptance", "cost"), [(0, 0.5, 0.15), (1, 0.7, 0.33), (2, 0.9, 0.5), (0, 0.8, 1.5)]
)
def test_cells_of_the_table_are_what_is_played(place: int, acceptance: float, cost: float) -> None:
    """Some of what `played_lanes` writes."""
    breadth = both_lanes.BREADTHS[place]
    kept = both_lanes.TOKENS[place][both_lanes.FIRST.index(acceptance)]
    played = tokens_per_verification(acceptance, cost, breadth)
    assert kept[both_lanes.COSTS.index(cost)] == pytest.approx(played, rel=0.03)
    assert (both_lanes.FIRST, both_lanes.COSTS, both_lanes.BREADTHS) == (FIRST, COSTS, BREADTHS)


def test_a_trace_has_the_chances_of_its_script() -> None:
    script, tokens = ChanceScript(0.6, 0.5), 50_000
    trace = script.trace(tokens, 3)
    assert trace == script.trace(tokens, 3)
    assert trace != script.trace(tokens, 4)
    assert script.chances == pytest.approx((0.6, 0.2, 0.1, 0.05))
    for rank, chance in enumerate(script.chances):
        assert trace.count(rank) / tokens == pytest.approx(chance, abs=0.01)
    assert trace.count(MISSED) / tokens == pytest.approx(1 - sum(script.chances), abs=0.01)


def test_a_draft_that_is_always_right_is_verified_in_the_largest_trees() -> None:
    played = simulate_trace([0] * 4000, [(0, -1e-3)], Times.flat(0.04, 0.0))
    assert played.rate > 15
    slow = simulate_trace([0] * 2000, [(0, -1e-3)], Times.flat(0.5, 0.0))
    assert slow.rate == pytest.approx(2, rel=0.05)  # as fast as the draft


def test_a_draft_that_is_never_right_costs_nothing_as_soon_as_that_is_seen() -> None:
    played = simulate_trace(
        [MISSED] * 2000, ChanceScript(0.5, 0.3).candidates, Times.flat(0.2, 0.0)
    )
    assert played.rate > 0.98


def test_rows_that_cost_something_are_weighed() -> None:
    """Each row costs a tenth: trees stay small, and the loop faster than the target alone."""
    script = ChanceScript(0.6, 0.3)
    flat = Times.flat(0.1, 0.1)
    dear = Times(lambda rows: 1 + 0.1 * (rows - 1), flat.step)
    trace = script.trace(1500, 5)
    played = simulate_trace(trace, script.candidates, dear)
    assert 1.2 < played.rate < simulate_trace(trace, script.candidates, flat).rate


@pytest.mark.release(keep=1, reason="every machine")
@pytest.mark.parametrize("breadth", [0.0, 0.3])
@pytest.mark.parametrize("second", [0.3, 0.5])
@pytest.mark.parametrize("first", [0.5, 0.9])
def test_drafting_ahead_is_never_slower_than_in_turns(
    first: float, second: float, breadth: float
) -> None:
    """By more than the noise; the best chains drafted in turns are left behind."""
    script = ChanceScript(first, second)
    trace = script.trace(600, 1)
    for cost in (0.04, 0.15, 0.5):
        times = Times.flat(cost, breadth)
        ahead = simulate_trace(trace, script.candidates, times).rate
        assert ahead > 0.95 * simulate_trace(trace, script.candidates, times, overlap=False).rate
        assert ahead > serial(FLAT, cost, first).tokens_per_s[0]


def test_parallel_drafting_is_read_from_the_table_and_in_between() -> None:
    most = tree_tokens(0.7, 4)[-1, -1]
    cells = dict(zip(both_lanes.COSTS, both_lanes.TOKENS[1][4], strict=True))
    for cost in (0.1, 0.33, 0.75):
        rate = parallel(FLAT_TREES, cost, 0.1, 0.7).tokens_per_s[0]
        assert rate == pytest.approx(min(cells[cost], most))
    between = parallel(FLAT_TREES, 0.25, 0.05, 0.75).tokens_per_s[0]
    assert cells[0.33] < between < both_lanes.TOKENS[0][5][both_lanes.COSTS.index(0.2)]
    far = parallel(FLAT_TREES, 1e-4, 0.0, 0.3).tokens_per_s[0]
    assert far == pytest.approx(both_lanes.TOKENS[0][1][0])


def test_no_round_brings_more_than_its_tree() -> None:
    dear = 1 + 10.0 * np.arange(len(ROWS))[:, None]  # only few rows pay
    assert parallel(dear, 0.01, 0.0, 0.9).tokens_per_s[0] < 1
    assert parallel(FLAT_TREES, 0.001, 0.0, 1.0).tokens_per_s[0] <= DEEPEST + 1


@pytest.mark.parametrize("share", [0.05, 0.15, 0.33, 0.5])
@pytest.mark.parametrize("acceptance", [0.5, 0.7, 0.9])
def test_both_lanes_at_work_are_faster_than_in_turns(acceptance: float, share: float) -> None:
    both = parallel(FLAT_TREES, share, 0.1, acceptance).tokens_per_s[0]
    assert both > serial(FLAT, share, acceptance).tokens_per_s[0]


def test_a_draft_that_is_as_slow_as_the_target_brings_nothing() -> None:
    assert serial(FLAT, 1.0, 0.9).tokens_per_s[0] < plain(FLAT).tokens_per_s[0]
    assert parallel(FLAT_TREES, 1.1, 0.0, 0.9).tokens_per_s[0] < 1.3


def test_the_depth_is_that_of_the_best_rate() -> None:
    """Where rows cost something, chains are short."""
    dear = 1 + 0.5 * np.arange(DEEPEST + 1.0)[:, None]
    assert serial(dear, 0.05, 0.6).depth[0] == 1
    assert serial(FLAT, 0.01, 0.9).depth[0] == DEEPEST
    assert expected_tokens(2, 0.5) == 1.75


# ---- trees -----------------------------------------------------------------------------------


def test_trees_of_published_heads() -> None:
    """What their papers measured, for the acceptances that were chosen by it."""
    assert tree_tokens(0.88, 10)[7, 15] == pytest.approx(5.9, abs=0.1)  # DGF, HumanEval
    assert tree_tokens(0.81, 10)[7, 15] == pytest.approx(4.8, abs=0.1)  # on MT-bench
    chain = expected_tokens(5, 0.73)
    assert chain == pytest.approx(3.2, abs=0.1)  # EAGLE-1's chain
    assert tree_tokens(0.73, 10)[4, 15] > 1.1 * chain


def test_trees_as_they_are_played() -> None:
    """Targets drawn with dice against every tree of the best paths."""
    dice, acceptance, nodes, depth = Random(5), 0.6, 9, 3
    missed = [(1 - acceptance) * NEXT_CHOICE * (1 - NEXT_CHOICE) ** rank for rank in range(9)]
    ranks = [acceptance, *missed]
    paths: list[tuple[int, ...]] = [()]
    for _ in range(depth):
        paths += [(*path, rank) for path in paths for rank in range(10)]
    tree = sorted(set(paths) - {()}, key=lambda path: -prod(ranks[rank] for rank in path))[:nodes]
    rounds = 100_000
    tokens = 0
    for _ in range(rounds):
        path: tuple[int, ...] = ()
        while True:
            drawn = dice.random()
            rank = next((r for r, edge in enumerate(accumulate(ranks)) if drawn < edge), 10)
            tokens += 1
            path = (*path, rank)
            if path not in tree:
                break
    assert tree_tokens(acceptance, 10)[depth - 1, nodes] == pytest.approx(tokens / rounds, rel=0.01)


def test_a_tree_of_one_child_is_a_chain() -> None:
    for depth in (1, 4, 10):
        expected = expected_tokens(depth, 0.7)
        assert tree_tokens(0.7, 1)[depth - 1, -1] == pytest.approx(expected)
    assert tree_tokens(1.0, 10)[5, 6] == tree_tokens(1.0, 10)[5, -1] == 7


def test_trees_pay_where_rows_are_cheap() -> None:
    dear = 1 + 0.5 * np.arange(len(ROWS), dtype=float)[:, None]
    flat = np.ones((len(ROWS), 1))
    tree = in_trees(flat, 0.02, 0.0, 0.6, 10).tokens_per_s[0]
    assert tree > 1.1 * serial(flat, 0.02, 0.6).tokens_per_s[0]
    costly = in_trees(dear, 0.02, 0.0, 0.6, 10)
    assert costly.tokens_per_s[0] == pytest.approx(serial(dear, 0.02, 0.6).tokens_per_s[0], rel=0.1)
    assert in_trees(flat, 0.02, 1.0, 0.6, 10).tokens_per_s[0] < tree / 1.5
