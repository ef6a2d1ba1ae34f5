"""What drafting brings, against the table and the simulation of the notes on the two papers."""

from __future__ import annotations

from itertools import accumulate
from math import prod
from random import Random

import numpy as np
import pytest

from engine.plan.cost import DEEPEST, ROWS
from engine.plan.speculation import (
    NEXT_CHOICE,
    expected_tokens,
    in_trees,
    parallel,
    plain,
    serial,
    tree_tokens,
)

FLAT = np.ones((DEEPEST + 1, 1))
"""Verification costs the same for all numbers of rows."""


@pytest.mark.parametrize(
    ("acceptance", "share", "best"),
    [(0.5, 0.10, 1.46), (0.7, 0.10, 1.98), (0.8, 0.10, 2.47), (0.8, 0.20, 1.87), (0.9, 0.33, 1.77)],
)
def test_serial_drafting(acceptance: float, share: float, best: float) -> None:
    assert serial(FLAT, share, acceptance).tokens_per_s[0] == pytest.approx(best, abs=0.01)


@pytest.mark.parametrize(
    ("acceptance", "share", "speed"),
    [(0.5, 0.15, 1.33), (0.7, 0.15, 1.86), (0.8, 0.20, 2.28), (0.8, 0.33, 1.89), (0.9, 0.50, 1.74)],
)
def test_parallel_drafting(acceptance: float, share: float, speed: float) -> None:
    assert parallel(FLAT, share, acceptance).tokens_per_s[0] == pytest.approx(speed, abs=0.01)


def test_parallel_drafting_as_it_happens() -> None:
    """Rounds played with dice: chains are verified whole, or after a rejection one token alone."""
    dice, acceptance, length = Random(3), 0.8, 5
    tokens = rounds = 0
    whole = False
    while tokens < 200_000:
        rounds += 1
        if not whole:
            tokens += 1
            whole = dice.random() < acceptance
            continue
        accepted = 0
        while accepted < length and dice.random() < acceptance:
            accepted += 1
        tokens += accepted if accepted == length else accepted + 1
        whole = accepted == length
    rate = parallel(FLAT, 1 / length - 1e-9, acceptance).tokens_per_s[0]
    assert rate == pytest.approx(tokens / rounds, rel=0.02)


def test_a_draft_that_is_as_slow_as_the_target_brings_nothing() -> None:
    assert serial(FLAT, 1.0, 0.9).tokens_per_s[0] < plain(FLAT).tokens_per_s[0]
    assert parallel(FLAT, 1.1, 0.9).tokens_per_s[0] < 1.3


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
