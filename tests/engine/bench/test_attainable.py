"""What speculation could reach at best."""

from __future__ import annotations

import pytest

from engine.bench.shape_speed import attainable
from engine.plan.throughput import expected_tokens

FLAT = dict.fromkeys(range(1, 10), 0.02)


def test_expected_tokens() -> None:
    assert expected_tokens(0, 0.7) == 1
    assert expected_tokens(3, 1.0) == 4
    assert expected_tokens(3, 0.0) == 1
    assert expected_tokens(3, 0.5) == pytest.approx((1 - 0.5**4) / 0.5)


def test_free_drafts_and_flat_forwards_are_drafted_as_deep_as_was_measured() -> None:
    best = attainable(FLAT, 0.0, 0.8)
    assert best.depth == 8
    assert best.speedup == pytest.approx(expected_tokens(8, 0.8))
    assert best.tokens_per_s == pytest.approx(expected_tokens(8, 0.8) / 0.02)


def test_what_does_not_pay_is_not_drafted() -> None:
    linear = {rows: 0.02 * rows for rows in range(1, 10)}
    for best in (attainable(FLAT, 0.001, 0.0), attainable(linear, 0.001, 0.9)):
        assert (best.depth, best.speedup) == (0, 1)


def test_draft_time_makes_chains_shorter() -> None:
    depths = [attainable(FLAT, draft, 0.7).depth for draft in (0.0005, 0.002, 0.006, 0.02)]
    assert depths == sorted(depths, reverse=True)
    assert depths[0] > depths[-1]


def test_sizes_that_were_not_measured_lie_on_a_line() -> None:
    coarse = attainable({1: 0.02, 4: 0.026, 8: 0.05}, 0.001, 0.8)
    fine = attainable(
        {1: 0.02, 2: 0.022, 3: 0.024, 4: 0.026, 5: 0.032, 6: 0.038, 7: 0.044, 8: 0.05}, 0.001, 0.8
    )
    assert coarse.depth == fine.depth == 3
    assert coarse.tokens_per_s == pytest.approx(fine.tokens_per_s)
