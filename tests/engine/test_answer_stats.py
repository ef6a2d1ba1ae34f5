"""The account of an answer that was written in several goes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.events import AnswerStats

FIRST = AnswerStats(
    prompt_tokens=30,
    reused_tokens=10,
    committed=21,
    rounds=10,
    plain_rounds=2,
    drafted=24,
    accepted=10,
    drafted_by_depth=(8, 8, 8),
    accepted_by_depth=(6, 3, 1),
    acceptance_length=2.5,
    ttft_s=0.2,
    tokens_per_s=10.0,
    seconds=2.5,
    decode_seconds=2.0,
)


def test_two_goes_make_one_account() -> None:
    later = replace(
        FIRST,
        prompt_tokens=51,
        reused_tokens=51,
        committed=7,
        rounds=6,
        plain_rounds=6,
        drafted=0,
        accepted=0,
        drafted_by_depth=(),
        accepted_by_depth=(),
        acceptance_length=None,
        ttft_s=0.1,
        tokens_per_s=6.0,
        seconds=1.5,
        decode_seconds=1.0,
        fallback_reason="It does not pay.",
    )
    whole = FIRST.followed_by(later)
    assert (whole.prompt_tokens, whole.reused_tokens, whole.ttft_s) == (30, 10, 0.2)
    assert (whole.committed, whole.rounds, whole.plain_rounds) == (28, 16, 8)
    assert (whole.drafted_by_depth, whole.accepted_by_depth) == ((8, 8, 8), (6, 3, 1))
    assert whole.acceptance_length == 2.5  # rounds that verified nothing do not count
    assert whole.tokens_per_s == pytest.approx((20 + 6) / 3)
    assert (whole.seconds, whole.decode_seconds) == (4.0, 3.0)
    assert whole.fallback_reason == "It does not pay."


def test_lengths_weigh_by_the_rounds_that_verified_a_draft() -> None:
    later = replace(FIRST, rounds=24, plain_rounds=0, acceptance_length=1.5)
    assert FIRST.followed_by(later).acceptance_length == pytest.approx((2.5 * 8 + 1.5 * 24) / 32)
