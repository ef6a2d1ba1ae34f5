"""What drafting brings, against the table and the simulation of the notes on the two papers."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from engine.plan.cost import DEEPEST
from engine.plan.speculation import expected_tokens, parallel, plain, serial

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
