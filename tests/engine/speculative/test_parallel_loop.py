"""The parallel loop and its controller on paper: who waits for whom, and what turns out to pay."""

from __future__ import annotations

from typing import Any

import pytest
from harness import beside
from paper_lane import PaperPair, Written, write

from engine.speculative.draft_worker import Outlook
from engine.speculative.strategies import DraftingStrategy


def flat(verify: float, step: float, acceptance: float, **more: Any) -> PaperPair:
    """A target whose rows cost nothing, as on accelerators, and a draft whose nodes cost little."""
    return PaperPair(
        lambda rows: verify * (1 + 0.002 * rows),
        lambda nodes: step * (1 + 0.1 * (nodes - 1)),
        acceptance,
        **more,
    )


def rests(written: Written) -> float:
    """Share of the rounds behind the first in which the draft rested."""
    paces = written.lane.paces[1:]
    return paces.count(None) / len(paces)


def test_the_first_token_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    written = write(monkeypatch, flat(1.0, 0.1, 0.9), beside(ahead=True), tokens=30)
    first = written.rounds[0]
    assert (first.verify.start, first.drafted, first.drafting) == (0.0, 0, ())
    assert written.rounds[1].drafted


def test_a_cheap_draft_is_ahead_of_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    written = write(monkeypatch, flat(1.0, 0.05, 0.8), beside(ahead=True))
    assert written.tokens_per_s > 3.1  # in turns the best chain gives 3.0
    busy = sum(done.verify.seconds for done in written.rounds)
    assert busy > 0.7 * (written.rounds[-1].verify.end - written.rounds[0].verify.start)
    drafted = [done for done in written.rounds if done.drafted]
    assert len(drafted) > 0.8 * len(written.rounds)
    assert any(done.drafting for done in drafted)


def test_both_take_turns_where_that_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both lanes share what they compute on, so that together they are slower."""
    pair = flat(1.0, 0.05, 0.8, slowed=2.0)
    ahead = write(monkeypatch, pair, beside(ahead=True), tokens=1500)
    controller = beside()
    chosen = write(monkeypatch, pair, controller, tokens=1500)
    assert controller.switch.best is DraftingStrategy.SERIAL
    assert controller.fallback_reason is None
    assert chosen.tokens_per_s > 1.2 * ahead.tokens_per_s


def test_ahead_stays_where_that_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = flat(1.0, 0.4, 0.8)
    controller = beside()
    chosen = write(monkeypatch, pair, controller, tokens=1500)
    ahead = write(monkeypatch, pair, beside(ahead=True), tokens=1500)
    assert controller.switch.best is DraftingStrategy.PARALLEL
    assert chosen.tokens_per_s > 0.95 * ahead.tokens_per_s


def test_drafting_that_does_not_pay_ends_in_words_and_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    controller = beside()
    written = write(monkeypatch, flat(1.0, 0.9, 0.05, slowed=1.3), controller, tokens=600)
    assert rests(written) > 0.85
    assert written.tokens_per_s > 0.95, "what trying costs"
    assert controller.fallback_reason is not None
    assert "times the plain speed" in controller.fallback_reason
    paces = written.lane.paces
    again = [index for index in range(100, len(paces)) if paces[index] and paces[index - 1] is None]
    assert again, "text changes: what did not pay may pay later"
    more = write(monkeypatch, flat(1.0, 0.9, 0.05), controller, tokens=100, seed=5)
    assert rests(more) > 0.85, "it is remembered across answers"


def test_it_comes_back_where_it_pays_again(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = beside()
    write(monkeypatch, flat(1.0, 0.9, 0.05, slowed=1.3), controller, tokens=300)
    assert controller.fallback_reason
    write(monkeypatch, flat(1.0, 0.1, 0.8), controller, tokens=3000)
    assert controller.fallback_reason is None
    assert controller.switch.best is not DraftingStrategy.PLAIN


@pytest.mark.parametrize("acceptance", [0.05, 0.9])
def test_asked_for_by_name_it_never_rests(
    monkeypatch: pytest.MonkeyPatch, acceptance: float
) -> None:
    pair = flat(1.0, 0.9, acceptance, slowed=1.5)
    controller = beside(ahead=True)
    written = write(monkeypatch, pair, controller)
    assert all(pace is not None and pace.overlap for pace in written.lane.paces[1:])
    assert controller.fallback_reason is None
    offered = beside(forced=True)
    in_auto = write(monkeypatch, pair, offered)
    assert rests(in_auto) == 0.0
    assert offered.fallback_reason is None


def test_a_draft_that_still_reads_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = flat(1.0, 0.1, 0.8, catching_up=40.5)
    written = write(monkeypatch, pair, beside(forced=True), tokens=200)
    alone = [done for done in written.rounds if done.verify.start < 40]
    assert [len(done.tokens) for done in alone] == [1] * len(alone)
    assert len(alone) >= 39, "the target has gone on meanwhile"
    assert all(pace and pace.overlap for pace in written.lane.paces[1 : len(alone)])
    assert any(done.accepted for done in written.rounds[len(alone) :])


def test_a_lane_that_hangs_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    written = write(monkeypatch, flat(0.02, 0.002, 0.8), beside(ahead=True), 40, stuck=True)
    assert len(written.tokens) == 40
    assert 1 / written.tokens_per_s < 2 * 0.02


def test_a_stop_is_obeyed_while_the_target_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    written = write(monkeypatch, flat(1.0, 0.1, 0.8), beside(ahead=True), stop_at=50)
    assert 50 <= len(written.tokens) < 50 + 32


def test_nothing_is_waited_for_at_the_very_end(monkeypatch: pytest.MonkeyPatch) -> None:
    written = write(monkeypatch, flat(1.0, 0.1, 0.8), beside(ahead=True), tokens=1)
    assert (len(written.rounds), written.lane.waits) == (1, 0)


def test_nobody_waits_for_what_will_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.speculative.pacing.worth_waiting", lambda *_, **__: True)
    assert beside().worth_waiting(Outlook(1.0, 0.1))
    assert not beside().worth_waiting(Outlook(1.0, None))
