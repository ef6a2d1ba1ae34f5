"""What drafting brought, in one line: from measurements, and honest where it brought nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
import scripted_rounds as scripted
from desk import Desk

from app.performance.gain import Baseline, gain_words
from app.performance.panel import PerformancePanel
from app.performance.tally import AnswerTally
from app.showcase.script import stats

FAST = stats(101)
LONG = " ".join(f"word{number}" for number in range(60))


def tally(tokens_per_s: float = 40.0, *, plain: int = 0, rounds: int = 40) -> AnswerTally:
    told = AnswerTally("r")
    length = 3.14 if plain < rounds else None
    told.finish(
        replace(
            FAST,
            tokens_per_s=tokens_per_s,
            rounds=rounds,
            plain_rounds=plain,
            acceptance_length=length,
        )
    )
    return told


@pytest.mark.parametrize(
    ("seen", "plain", "said"),
    [
        (
            tally(),
            20.0,
            "2.0 times as fast as without drafting. 3.1 tokens per verification.",
        ),
        (tally(), 40.0, "About as fast as without drafting. 3.1 tokens per verification."),
        (
            tally(),
            50.0,
            "Drafting costs more than it brings here: 0.80 times the speed without it.",
        ),
        (
            tally(plain=30),
            40.0,
            "Drafting does not pay here, so the target mostly decodes alone.",
        ),
        (tally(plain=40), 40.0, "Nothing was drafted for this answer."),
        (
            tally(),
            None,
            "3.1 tokens per verification. The speed without drafting has not been measured yet.",
        ),
        (tally(rounds=3), 20.0, ""),
        (None, 20.0, ""),
    ],
)
def test_what_is_said(seen: AnswerTally | None, plain: float | None, said: str) -> None:
    known = None if plain is None else Baseline(plain)
    assert gain_words(seen, known, has_draft=True) == said


def test_without_a_draft_there_is_nothing_to_gain() -> None:
    assert gain_words(tally(), None, has_draft=False).startswith("No draft is in use")


def test_the_panel_says_it_without_a_click(desk: Desk) -> None:
    panel = desk.assembly.window.performance
    assert isinstance(panel, PerformancePanel)
    assert not panel.gain.isVisible()
    desk.script.answer = LONG
    desk.type_and_send("Tell me of words.")
    desk.answered()
    desk.bot.waitUntil(lambda: "tokens per verification" in panel.gain.text())
    assert "not been measured" in panel.gain.text()
    measured = desk.assembly.measured
    template = measured.all[-1]
    measured.add(replace(template, drafting=False, tokens_per_s=template.tokens_per_s / 2))
    desk.session.regenerate()
    desk.answered()
    desk.bot.waitUntil(lambda: panel.gain.text().startswith("2.0 times as fast"))


def test_a_few_plain_rounds_do_where_nothing_else_is_known(desk: Desk) -> None:
    panel = desk.assembly.window.performance
    assert isinstance(panel, PerformancePanel)
    without = panel._without
    assert without is not None
    timeline = panel.sight.timeline
    for index in range(5):
        timeline.add(scripted.round_finished(index, 0.2 * index, verify=0.1))
    assert without.baseline(timeline) == Baseline(pytest.approx(5.0))
