"""What is counted, and how acceptance length and tokens/s are defined (design rule 3.4)."""

from __future__ import annotations

import pytest

from engine.backend.round import Round, Verified
from engine.backend.tree import chain
from engine.events import AnswerStats, Interval
from engine.session.tally import Tally


def finished_round(tokens: int, drafted: int, at: float) -> Round:
    accepted = min(tokens - 1, drafted)
    verified = Verified((0,), tuple(range(tokens)), accepted, min(accepted + 1, drafted))
    drafting = (Interval(at, at + 0.25),) if drafted else ()
    tree = chain(0, range(drafted), [0.0] * drafted)
    return Round(tree, verified, Interval(at + 0.25, at + 1.0), drafting)


def played(rounds: list[tuple[int, int, int]]) -> AnswerStats:
    """Rounds of (committed, drafted, counted), one per second from second 11 on."""
    tally = Tally(prompt_tokens=20, reused=5)
    for number, (committed, drafted, counted) in enumerate(rounds):
        done = finished_round(committed, drafted, 10.0 + number)
        tally.add(done, counted, first=number == 0)
    return tally.stats(started=9.5, fallback_reason=None)


def test_the_definitions() -> None:
    stats = played([(1, 0, 1), (1, 0, 1), (4, 5, 4), (2, 3, 2)])
    assert stats.committed == 8
    assert stats.rounds == 3, "the prefill's own token is no decode round"
    assert stats.plain_rounds == 1
    assert stats.acceptance_length == (4 + 2) / 2
    assert (stats.drafted, stats.accepted) == (8, 4)
    assert stats.drafted_by_depth == (2, 2, 1, 1)
    assert stats.accepted_by_depth == (2, 1, 1, 0)
    assert stats.ttft_s == 11.0 - 9.5
    assert stats.decode_seconds == 3.0
    assert stats.tokens_per_s == 7 / 3
    assert stats.draft_seconds == 0.5
    assert stats.draft_idle == pytest.approx(1 - 0.5 / 3)


def test_what_was_cut_off_is_not_counted() -> None:
    """Five tokens were committed, but the answer ended after the second of them."""
    stats = played([(1, 0, 1), (5, 6, 2)])
    assert stats.committed == 3
    assert stats.acceptance_length == 2
    assert stats.accepted == 2


def test_without_drafts_there_is_no_acceptance_length() -> None:
    stats = played([(1, 0, 1), (1, 0, 1)])
    assert stats.acceptance_length is None
    assert stats.plain_rounds == stats.rounds == 1


def test_a_single_token_has_no_speed() -> None:
    stats = played([(1, 0, 1)])
    assert stats.tokens_per_s is None
    assert stats.draft_idle is None
