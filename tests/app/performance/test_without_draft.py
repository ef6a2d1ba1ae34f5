"""What the draft brings: told from measurements, measured on demand, switched off and on."""

from __future__ import annotations

from dataclasses import replace

import pytest
import scripted_rounds as scripted
from desk import Desk
from PySide6.QtCore import Qt

from app.performance.baseline import WithoutDraft
from app.performance.feed import ASIDE
from app.performance.performance_page import PerformancePage
from app.performance.side_by_side import SideBySide
from app.performance.tally import AnswerTally
from app.performance.timeline import Timeline
from app.shell.banner import Banner
from app.shell.page_names import PageName
from engine.commands import Generate, Stop

# What a window without a screen cannot do, Qt says for every dialog.
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support", extend=True)

LONG = " ".join(f"word{number}" for number in range(60))
TALLY = AnswerTally("r", committed=101, drafted=120, _first_at=0.0, _last_at=10.0)


@pytest.fixture
def page(desk: Desk) -> PerformancePage:
    """The page, behind a chat with one answer."""
    desk.ready()
    desk.script.answer = LONG
    desk.type_and_send("Tell me of words.")
    desk.answered()
    desk.assembly.window.pages.open(PageName.PERFORMANCE)
    shown = desk.assembly.window.pages.page(PageName.PERFORMANCE)
    assert isinstance(shown, PerformancePage)
    return shown


def measure(desk: Desk, page: PerformancePage) -> None:
    desk.bot.mouseClick(page.board.findings.measure, Qt.MouseButton.LeftButton)


def test_it_is_measured_on_demand_and_nobody_else_hears_of_it(
    desk: Desk, page: PerformancePage
) -> None:
    """The last question again, without a draft; chat, graphs and history stay as they are."""
    before = list(desk.session.messages)
    rounds = page.board.feed.model.timeline
    tally = page.board.feed.model.tally
    measure(desk, page)
    assert page.board.findings.measure.text() == "Cancel the measurement"
    desk.bot.waitUntil(lambda: page.board.findings.measure.text() == "Measure without the draft")
    request = desk.script.requests[-1]
    assert request.id.startswith(ASIDE)
    assert not request.drafting
    assert request.max_tokens == 64
    assert [each.text for each in request.messages] == ["Tell me of words."]
    assert request.sampling == desk.script.requests[0].sampling, (
        "the same answer, as far as it goes"
    )
    assert desk.session.messages == before
    assert desk.session.live is None
    assert page.board.feed.model.timeline is rounds
    assert page.board.feed.model.tally is tally


def test_a_question_that_comes_meanwhile_goes_first(desk: Desk, page: PerformancePage) -> None:
    desk.script.hold_after = 1
    measure(desk, page)
    desk.bot.waitUntil(lambda: len(desk.script.requests) == 2)
    aside = desk.script.requests[-1].id
    assert desk.session.send("Something else")
    stop, ask = desk.script.commands[-2:]
    assert stop == Stop(aside)
    assert isinstance(ask, Generate)
    desk.script.gate.set()
    answer = desk.answered()
    assert answer.message.text == LONG
    assert page.board.findings.measure.text() == "Measure without the draft"


def test_a_measurement_can_be_called_off(desk: Desk, page: PerformancePage) -> None:
    desk.script.hold_after = 1
    measure(desk, page)
    desk.bot.waitUntil(lambda: len(desk.script.requests) == 2)
    measure(desk, page)
    desk.bot.waitUntil(lambda: page.board.findings.measure.text() == "Measure without the draft")
    assert not desk.assembly.window.findChildren(Banner)
    desk.bot.waitUntil(page.board.findings.measure.isEnabled)


def test_an_answer_that_is_too_short_is_told(desk: Desk, page: PerformancePage) -> None:
    desk.script.answer = "Yes."
    measure(desk, page)
    desk.bot.waitUntil(lambda: bool(desk.assembly.window.findChildren(Banner)))
    (banner,) = desk.assembly.window.findChildren(Banner)
    assert "too short" in banner.text


def test_there_must_be_a_question_and_no_answer_under_way(desk: Desk) -> None:
    desk.ready()
    desk.assembly.window.pages.open(PageName.PERFORMANCE)
    page = desk.assembly.window.pages.page(PageName.PERFORMANCE)
    assert isinstance(page, PerformancePage)
    assert not page.board.findings.measure.isEnabled()
    desk.script.answer = LONG
    desk.script.hold_after = 1
    desk.session.send("Hello")
    assert not page.board.findings.measure.isEnabled()
    desk.script.gate.set()
    desk.bot.waitUntil(page.board.findings.measure.isEnabled)


def test_the_switch_is_for_the_next_answers(desk: Desk, page: PerformancePage) -> None:
    desk.bot.mouseClick(page.board.findings.drafting, Qt.MouseButton.LeftButton)
    if page.board.findings.drafting.isChecked():  # the click fell beside the box
        page.board.findings.drafting.click()
    assert page.board.findings.comparison.text().endswith(
        "The draft is switched off for the next answers."
    )
    desk.session.send("And now?")
    desk.answered()
    assert not desk.script.requests[-1].drafting
    page.board.findings.drafting.click()
    desk.session.send("And again?")
    desk.answered()
    assert desk.script.requests[-1].drafting
    assert desk.script.requests[0].drafting


def test_the_comparison_names_numbers_and_age(desk: Desk, page: PerformancePage) -> None:
    now = [1000.0]
    assembly = desk.assembly
    without = WithoutDraft(
        assembly.bridge, assembly.session, assembly.measured, lambda: now[0], page
    )
    measured = assembly.measured
    nothing = Timeline()
    assert "has not been measured" in without.words(nothing, TALLY)
    template = measured.all[-1]
    measured.add(replace(template, at=1000.0, drafting=False, tokens_per_s=8.0))
    said = without.words(nothing, TALLY)
    assert said == "Without a draft 8.0 tokens/s, now 10.0 (1.25 times); measured just now."
    for later, words in (
        (60.0, "1 minute ago"),
        (180.0, "3 minutes ago"),
        (7200.0, "2 hours ago"),
        (3 * 86400.0, "3 days ago"),
    ):
        now[0] = 1000.0 + later
        assert words in without.words(nothing, TALLY)
    assert without.words(nothing, None).startswith("Without a draft 8.0 tokens/s; measured")
    elsewhere = replace(template, drafting=False, layers_on_gpu=7, tokens_per_s=99.0)
    measured.add(elsewhere)
    assert "8.0" in without.words(nothing, TALLY), "placed otherwise it is no comparison"


def test_rounds_of_the_same_answer_are_the_best_comparison(
    desk: Desk, page: PerformancePage
) -> None:
    measured = desk.assembly.measured
    measured.add(replace(measured.all[-1], drafting=False, tokens_per_s=3.0))
    timeline = Timeline()
    for index in range(20):
        timeline.add(scripted.round_finished(index, 0.2 * index, verify=0.1))
    said = page.board._without.words(timeline, TALLY)
    assert said == ("Without a draft 5.0 tokens/s, now 10.0 (2.00 times); measured in this answer.")


def test_a_draft_that_costs_more_is_told_as_soon_as_it_is_measured(
    desk: Desk, page: PerformancePage
) -> None:
    page.board.feed.handle_all(tuple(scripted.answer(10, seed=3)))
    desk.bot.waitUntil(
        lambda: page.board.sight.timeline.request_id == "r" and page.board.frames.at_rest
    )
    tally = page.board.sight.tally
    assert tally is not None
    assert tally.tokens_per_s is not None
    assert "costs more" not in page.board.findings.words
    measured = desk.assembly.measured
    measured.add(replace(measured.all[-1], drafting=False, tokens_per_s=2 * tally.tokens_per_s))
    desk.bot.waitUntil(lambda: "The draft costs more than it brings" in page.board.findings.words)


def test_with_and_without_the_draft_run_side_by_side(desk: Desk, page: PerformancePage) -> None:
    desk.bot.waitUntil(page.board.findings.beside.isEnabled)
    page.board.findings.beside.click()
    (dialog,) = desk.assembly.window.findChildren(SideBySide)
    desk.bot.waitUntil(lambda: all(area.toPlainText() == LONG for area in dialog.texts))
    desk.bot.waitUntil(lambda: all("tokens/s" in each.text() for each in dialog.speeds))
    request = desk.script.requests[-1]
    assert not request.drafting
    assert [each.text for each in request.messages] == ["Tell me of words."]
    desk.script.hold_after = 1
    desk.bot.waitUntil(dialog.again.isEnabled)
    dialog.again.click()
    desk.bot.waitUntil(lambda: len(desk.script.requests) == 3)
    dialog.reject()
    desk.bot.waitUntil(lambda: Stop(desk.script.requests[-1].id) in desk.script.commands)
