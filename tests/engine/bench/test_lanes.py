"""Drafting beside verifying in virtual time: against the formulas, and against each other."""

from __future__ import annotations

from math import sqrt

import pytest

from engine.bench.lanes.others import (
    best_depth,
    papers_speed,
    play_paper,
    play_serial,
    sequences,
    serial_speed,
)
from engine.bench.lanes.ours import simulate_trace
from engine.bench.lanes.script import CANDIDATES, MISSED, ChanceScript, Played, Times
from engine.bench.lanes.table import budget, compare, play

PUBLISHED = [
    (0.5, 0.04, 1.33, 1.67),
    (0.5, 0.20, 1.32, 1.25),
    (0.6, 0.15, 1.53, 1.51),
    (0.7, 0.10, 1.94, 1.98),
    (0.7, 0.33, 1.61, 1.32),
    (0.8, 0.07, 2.72, 2.79),
    (0.8, 0.50, 1.55, 1.22),
    (0.9, 0.04, 5.08, 5.09),
    (0.9, 0.15, 3.42, 2.78),
]
"""First choice, cost, the paper's machine and drafting in turns, as the notes derive them."""


def error(played: Played) -> float:
    """Standard error of the rate."""
    return float(played.rates(40).std(ddof=1)) / sqrt(40)


@pytest.mark.parametrize(("first", "cost", "paper", "serial"), PUBLISHED)
def test_the_formulas_and_the_dice_agree(
    first: float, cost: float, paper: float, serial: float
) -> None:
    times, trace = Times.flat(cost, 0.0), ChanceScript(first, 0.3).trace(40_000, 1)
    depth = best_depth(first, times)
    assert papers_speed(first, first, budget(cost)) == pytest.approx(paper, abs=0.0051)
    assert serial_speed(first, times, depth) == pytest.approx(serial, abs=0.0051)
    played = play_paper(trace, times, budget(cost))
    assert abs(played.rate - papers_speed(first, first, budget(cost))) < 2 * error(played)
    played = play_serial(trace, times, depth)
    assert abs(played.rate - serial_speed(first, times, depth)) < 2 * error(played)


def test_several_sequences_begin_with_several_tokens() -> None:
    script = ChanceScript(0.4, 0.6)
    assert sequences(script.chances, 24) == 2
    assert sequences(ChanceScript(0.8, 0.6).chances, 24) == 1
    assert sequences(script.chances, 5) == 1  # two do not share five tokens
    played = play_paper(script.trace(40_000, 2), Times.flat(0.04, 0.0), 24, 2)
    hit = sum(script.chances[:2])
    assert abs(played.rate - papers_speed(0.4, hit, 12)) < 2 * error(played)


def test_a_trace_has_the_chances_of_its_script() -> None:
    script, tokens = ChanceScript(0.6, 0.5), 50_000
    trace = script.trace(tokens, 3)
    assert trace == script.trace(tokens, 3)
    assert trace != script.trace(tokens, 4)
    assert script.chances == pytest.approx((0.6, 0.2, 0.1, 0.05))
    for rank, chance in enumerate(script.chances):
        assert trace.count(rank) / tokens == pytest.approx(chance, abs=0.01)
    assert trace.count(MISSED) / tokens == pytest.approx(1 - sum(script.chances), abs=0.01)
    assert max(trace) < CANDIDATES


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


@pytest.mark.parametrize("breadth", [0.0, 0.3])
@pytest.mark.parametrize("second", [0.3, 0.5])
def test_ours_is_never_slower(second: float, breadth: float) -> None:
    """Than the paper's machine, or than drafting in turns; `duotail bench lanes` plays all."""
    for cell in compare((0.5, 0.9), (second,), (0.04, 0.15, 0.5), (breadth,), tokens=600):
        assert cell.over_paper > -2, cell
        assert cell.over_serial > -2, cell
        assert cell.ours > 0.95 * cell.turns, cell


def test_a_cell_is_always_the_same() -> None:
    cell = play(ChanceScript(0.7, 0.3), 0.15, 0.1, 400, 1)
    assert cell == play(ChanceScript(0.7, 0.3), 0.15, 0.1, 400, 1)
    assert cell.formula == pytest.approx(1.86, abs=0.01)
