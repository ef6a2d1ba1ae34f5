"""What drafting brought, in one line: from measurements, and honest where it brought nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from desk import Desk

from app.notices import Notice
from app.performance.gain import Gain, gain_of
from app.performance.panel import PerformancePanel
from app.performance.tally import AnswerTally
from app.performance.timeline import Shares
from app.performance.verdict import SpeedRange, SpeedVerdict
from app.showcase.script import stats
from engine.commands import Mode
from engine.events import Failed

FAST = stats(101)
LONG = " ".join(f"word{number}" for number in range(90))


def tally(
    tokens_per_s: float = 40.0, *, plain: int = 0, drafted: int = 160, committed: int = 101
) -> AnswerTally:
    told, rounds = AnswerTally("r"), 40
    length = 3.14 if plain < rounds else None
    told.finish(
        replace(
            FAST,
            tokens_per_s=tokens_per_s,
            rounds=rounds,
            plain_rounds=plain,
            drafted=drafted,
            committed=committed,
            acceptance_length=length,
        )
    )
    return told


SIDE_BY_SIDE = Shares(1.0, 0.9, 0.9, 0.8)
LOOKED_UP = Shares(1.0, 0.01, 0.9, 0.0)


COUNTS = "101 tokens, acceptance length 3.14."


def passed(plain: float | None, speed: float = 40.0) -> SpeedVerdict:
    """A verdict of exact measurements."""
    without = None if plain is None else SpeedRange.around(plain, 0)
    return SpeedVerdict(SpeedRange.around(speed, 0), without, 3.0)


@pytest.mark.parametrize(
    ("seen", "plain", "said"),
    [
        (tally(), 20.0, f"2.0x faster: 40.0 tokens/s, 20.0 without the draft. {COUNTS} A small"),
        (tally(), 40.0, "About as fast as without the draft: 40.0 tokens/s, 40.0 without"),
        (tally(), 50.0, "0.80x the speed without the draft: 40.0 tokens/s, 50.0 without"),
        (tally(plain=30), 40.0, "About as fast as without the draft"),
        (
            tally(drafted=0),
            40.0,
            "40.0 tokens/s. 101 tokens, acceptance length 3.14. Nothing was drafted",
        ),
        (tally(), None, f"40.0 tokens/s. {COUNTS} A small draft"),
        (tally(committed=6), 20.0, "6 tokens. Too few tokens to measure a speed."),
        (None, 20.0, "No answer yet."),
    ],
)
def test_what_is_said(seen: AnswerTally | None, plain: float | None, said: str) -> None:
    assert gain_of(seen, None, passed(plain), Mode.CPU).words.startswith(said)


def test_the_reason_is_told_in_every_mode() -> None:
    reasons = [
        gain_of(tally(), shares, passed(20.0), mode).why
        for shares, mode in (
            (SIDE_BY_SIDE, Mode.CPU),
            (SIDE_BY_SIDE, Mode.DOVETAIL),
            (SIDE_BY_SIDE, Mode.DUO),
            (LOOKED_UP, Mode.DUO),
        )
    ]
    assert len(set(reasons)) == 4
    assert all(reason.count(".") == 1 for reason in reasons), "one sentence"
    paused = gain_of(tally(plain=30), None, passed(40.0), None)
    assert "mostly writes alone" in paused.why


def test_the_panel_says_it_without_a_click(desk: Desk) -> None:
    panel = desk.assembly.window.performance
    assert isinstance(panel, PerformancePanel)
    desk.script.answer = LONG
    desk.type_and_send("Tell me of words.")
    desk.answered()
    view = panel.board.gain
    desk.bot.waitUntil(lambda: "acceptance length" in view.gain.counts)
    desk.bot.waitUntil(lambda: view.gain.bars[1].value == "is measured in a moment")
    assert view.describe().startswith("Answer to “Tell me of words.”")


def test_the_speed_without_the_draft_is_measured_quietly_and_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.performance.baseline.QUIET_MS", 0)
    panel = desk.assembly.window.performance
    assert isinstance(panel, PerformancePanel)
    desk.script.answer = LONG
    desk.type_and_send("Tell me of words.")
    desk.answered()
    desk.bot.waitUntil(lambda: len(desk.script.requests) == 2)
    aside = desk.script.requests[-1]
    assert aside.id.startswith("aside-")
    assert not aside.drafting
    assert [each.text for each in aside.messages] == [
        "Tell me of words.",
        LONG,
        "Tell me of words.",
    ], "the conversation stays in the prefix cache"
    desk.ready()
    desk.session.send("And more.")
    desk.answered()
    desk.bot.waitUntil(lambda: panel.board.frames.at_rest)
    assert not any(each.id.startswith("aside-") for each in desk.script.requests[2:])


def test_a_measurement_that_fails_is_told_to_whoever_asked(
    desk: Desk, notices: list[Notice], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.type_and_send("Tell me of words.")
    desk.answered()
    panel = desk.assembly.window.performance
    assert isinstance(panel, PerformancePanel)
    without = panel.board._without
    assert without is not None
    monkeypatch.setattr(without._bridge, "submit", lambda _command: None)
    for quietly in (True, False):
        desk.bot.waitUntil(lambda: without.possible)
        without.measure(quietly=quietly)
        assert not notices
        desk.tell(Failed(0.0, without._asked, "There is no room.", "Close programs."))
        without._asked = None
    assert [each.text for each in notices] == ["There is no room."]


def test_nothing_is_measured_for_nobody(desk: Desk) -> None:
    panel = desk.assembly.window.performance
    assert isinstance(panel, PerformancePanel)
    desk.script.answer = LONG
    desk.type_and_send("Tell me of words.")
    desk.answered()
    without = panel.board._without
    assert without is not None
    desk.bot.waitUntil(without._pause.isActive)
    desk.assembly.window.commands.toggle_performance()
    assert not without._pause.isActive()


def test_a_headline_that_is_too_long_for_one_line_is_not_cut(desk: Desk) -> None:
    panel = desk.assembly.window.performance
    assert isinstance(panel, PerformancePanel)
    view = panel.board.gain
    view.gain = Gain("2.0x faster")
    line = view.height_for(280)
    view.gain = Gain("0.63x the speed without the draft, and more words than fit into a line")
    assert view.height_for(280) > line
