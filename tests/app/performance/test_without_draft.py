"""What the draft brings: told from measurements, measured on demand, switched off and on."""

from __future__ import annotations

import pytest
from desk import Desk
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QFontInfo
from PySide6.QtWidgets import QWidget

from app.markdown.formula_object import latex_of
from app.performance.gain import Gain, SpeedBar
from app.performance.performance_page import PerformancePage
from app.performance.side_by_side import SideBySide
from app.performance.tally import AnswerTally
from app.shell.banner import Banner
from app.shell.page_names import PageName
from app.theme.theme import current
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
    assert request.id.startswith("aside-")
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


def test_a_click_asks_for_what_had_just_begun_by_itself(desk: Desk, page: PerformancePage) -> None:
    """The button keeps its words: nobody who wants a measurement cancels one."""
    desk.script.hold_after = 1
    without = page.board._without
    assert without is not None
    without.measure(quietly=True)
    desk.bot.waitUntil(lambda: len(desk.script.requests) == 2)
    assert page.board.findings.measure.text() == "Measure without the draft"
    measure(desk, page)
    assert page.board.findings.measure.text() == "Cancel the measurement"
    without.leave()
    assert not any(isinstance(each, Stop) for each in desk.script.commands)
    desk.script.gate.set()
    desk.bot.waitUntil(lambda: page.board.findings.measure.text() == "Measure without the draft")
    assert len(desk.script.requests) == 2


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


def test_the_comparison_is_told_in_a_sentence(page: PerformancePage) -> None:
    without = page.board._without
    assert without is not None
    bars = (SpeedBar("With the draft", 20.0), SpeedBar("Without it", None, "not measured"))
    assert "has not been measured" in without.words(Gain("", bars))
    known = (bars[0], SpeedBar("Without it", 10.0))
    said = without.words(Gain("", known))
    assert said == "With the draft 20.0 tokens/s, without it 10.0 tokens/s."


def test_with_and_without_the_draft_run_side_by_side(desk: Desk, page: PerformancePage) -> None:
    desk.bot.waitUntil(page.board.findings.beside.isEnabled)
    page.board.findings.beside.click()
    (dialog,) = desk.assembly.window.findChildren(SideBySide)
    desk.bot.waitUntil(lambda: all(area.toPlainText() == LONG for area in dialog.texts))
    desk.bot.waitUntil(lambda: all("tokens/s" in each.text() for each in dialog.speeds))
    both = desk.script.requests[-2:]
    assert [each.drafting for each in both] == [True, False], "in turns, both now"
    for request in both:
        assert [each.text for each in request.messages] == ["Tell me of words."]
    desk.script.hold_after = 1
    desk.bot.waitUntil(dialog.again.isEnabled)
    dialog.again.click()
    desk.bot.waitUntil(lambda: len(desk.script.requests) == 4)
    dialog.reject()
    desk.bot.waitUntil(lambda: Stop(desk.script.requests[-1].id) in desk.script.commands)


def test_short_answers_side_by_side_say_so_where_they_are(
    desk: Desk, page: PerformancePage
) -> None:
    desk.script.answer = "Only a few words."
    desk.bot.waitUntil(page.board.findings.beside.isEnabled)
    page.board.findings.beside.click()
    (dialog,) = desk.assembly.window.findChildren(SideBySide)
    desk.bot.waitUntil(lambda: len(desk.script.requests) == 3 and dialog.again.isEnabled())
    assert [each.text() for each in dialog.speeds] == ["too short to measure"] * 2
    assert desk.banners.texts == [], "behind the dialog nobody would see it"


def test_the_list_of_commands_compares_or_says_what_is_missing(
    desk: Desk, page: PerformancePage
) -> None:
    def compare() -> None:
        actions = desk.assembly.window.actions()
        next(each for each in actions if each.text() == "Compare side by side").trigger()

    desk.session.open(None)
    compare()
    assert desk.assembly.window.findChild(SideBySide) is None
    assert desk.banners.texts == ["Ask something first: the last question is answered once more."]
    desk.type_and_send("Tell me of words.")
    desk.answered()
    desk.bot.waitUntil(page.board.findings.beside.isEnabled)
    compare()
    dialog = desk.assembly.window.findChild(SideBySide)
    assert dialog is not None
    desk.bot.waitUntil(lambda: "tokens/s" in dialog.speeds[1].text())
    dialog.close()


def test_answers_side_by_side_are_typeset_and_load_nothing(
    desk: Desk, page: PerformancePage
) -> None:
    desk.script.answer = (
        "# Title\n\n**bold** ![x](file:///etc/hostname) <b>no</b>\n\nOne line\nand $x^2$\n\n"
        "```\ncode\n```\n\n| Hour | Wind |\n|---|---|\n| 6 | 2 |"
    )
    desk.bot.waitUntil(page.board.findings.beside.isEnabled)
    page.board.findings.beside.click()
    (dialog,) = desk.assembly.window.findChildren(SideBySide)
    desk.bot.waitUntil(lambda: len(desk.script.requests) == 3 and dialog.again.isEnabled())
    for area in dialog.texts:
        assert "Title" in area.toPlainText()
        assert "#" not in area.toPlainText()
        assert "**" not in area.toPlainText()
        assert "<b>no</b>" in area.toPlainText()
        assert "One line\nand x" in area.toPlainText(), "lines end as in the chat"
        assert area.loadResource(2, "file:///etc/hostname") is None
        assert "code\nHour" in area.toPlainText().replace("\N{OBJECT REPLACEMENT CHARACTER}", "")
        code = area.document().find("code").blockFormat()
        assert code.background().color() == QColor(current().sunken)
        table = area.document().find("Hour").currentTable()
        assert table.format().borderCollapse(), "a table has lines"


def test_formulas_side_by_side_are_set_as_in_the_chat(desk: Desk, page: PerformancePage) -> None:
    desk.script.answer = (
        "The half $\\frac{a}{b}$ of it:\n\n$$\\sum_{i=1}^n i^2$$\n\n| $\\sqrt{x}$ |\n|---|"
    )
    desk.bot.waitUntil(page.board.findings.beside.isEnabled)
    page.board.findings.beside.click()
    (dialog,) = desk.assembly.window.findChildren(SideBySide)
    desk.bot.waitUntil(lambda: len(desk.script.requests) == 3 and dialog.again.isEnabled())
    for area in dialog.texts:
        assert area.toPlainText().count("\N{OBJECT REPLACEMENT CHARACTER}") == 3
        assert "frac" not in area.toPlainText()
        cursor = area.document().find("\N{OBJECT REPLACEMENT CHARACTER}")
        assert latex_of(cursor.charFormat()) == r"\frac{a}{b}"
        height = area.document().documentLayout().blockBoundingRect(cursor.block()).height()
        assert height > 1.2 * QFontInfo(area.font()).pixelSize(), "the fraction has a height"


def test_whether_it_is_possible_is_told_without_the_whole_conversation(
    desk: Desk, page: PerformancePage, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = page.board._without
    assert without is not None
    desk.bot.waitUntil(lambda: without.possible)
    monkeypatch.setattr("app.performance.baseline.chat_request", lambda *_: 1 // 0)
    assert without.possible


@pytest.mark.usefixtures("styled")
def test_the_answer_side_by_side_that_has_the_keyboard_has_a_ring(
    desk: Desk, page: PerformancePage
) -> None:
    desk.bot.waitUntil(page.board.findings.beside.isEnabled)
    page.board.findings.beside.click()
    (dialog,) = desk.assembly.window.findChildren(SideBySide)
    first, second = dialog.texts
    desk.bot.waitUntil(first.hasFocus)
    assert [_left_edge(each) == current().accent for each in (first, second)] == [True, False]
    desk.bot.keyClick(first, Qt.Key.Key_Tab)
    assert [_left_edge(each) == current().accent for each in (first, second)] == [False, True]
    dialog.reject()


def _left_edge(widget: QWidget) -> str:
    """Colour in the middle of the left edge."""
    return widget.grab().toImage().pixelColor(0, widget.height() // 2).name()
