"""From an answer to its rounds and back: by menu, by keyboard, from its numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from desk import Desk
from fake_engine import Script
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from app.chat.messages.answer_details import AnswerDetails
from app.chat.messages.message_actions import Act
from app.performance.performance_page import PerformancePage
from app.performance.replay import ReplayPage
from app.shell.page_names import PageName
from app.showcase.script import MODEL_NAME

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

ANSWER = "one two three four five six seven eight nine ten eleven twelve"


def ask(desk: Desk, answer: str = ANSWER) -> int:
    desk.script.answer = answer
    desk.type_and_send("Question")
    desk.answered()
    desk.bot.waitUntil(lambda: not desk.session.writer.keeper._waiting)
    return desk.session.messages[-1].id


def replay(desk: Desk) -> ReplayPage:
    """The page that opens, with everything taken in."""
    pages = desk.assembly.window.pages
    desk.bot.waitUntil(lambda: isinstance(pages.currentWidget(), ReplayPage))
    page = pages.currentWidget()
    assert isinstance(page, ReplayPage)
    desk.bot.waitUntil(lambda: page.board.frames.at_rest and bool(page.board.tokens.chips.rows))
    return page


def text_of(page: ReplayPage) -> str:
    return "".join(each.text for each in page.board.sight.written.tokens.rounds)


def test_the_rounds_of_an_old_answer_are_shown_again(
    open_desk: Callable[[Script | None], Desk],
) -> None:
    first = open_desk(None)
    first.ready()
    ask(first)
    stats = first.session.messages[-1].stats
    first.assembly.close()
    desk = open_desk(None)
    desk.ready()
    answer = desk.chat.transcript.last_answer()
    assert answer is not None
    answer.act(Act.ROUNDS)
    page = replay(desk)
    assert text_of(page) == ANSWER
    assert len(page.board.sight.timeline.rounds) == 4
    assert page.board.sight.tally is not None
    assert page.board.sight.tally.stats == stats
    assert MODEL_NAME in page.board.gain.describe()
    assert page.board.timeline.hasFocus()
    assert desk.assembly.window.pages.shown is PageName.PERFORMANCE
    assert desk.assembly.window.navigation.buttons[PageName.PERFORMANCE].isChecked()


def test_there_are_ways_back(desk: Desk) -> None:
    ask(desk)
    pages = desk.assembly.window.pages
    actions = {action.text(): action for action in desk.assembly.window.commands.all}
    show = actions["Show the rounds of the last answer"]
    show.trigger()
    page = replay(desk)
    desk.bot.keyClick(page.live, Qt.Key.Key_Space)
    assert isinstance(pages.currentWidget(), PerformancePage)
    show.trigger()
    page = replay(desk)
    desk.bot.keyClick(page.board.timeline, Qt.Key.Key_Escape)
    assert pages.shown is None
    assert pages.currentWidget() is desk.chat
    show.trigger()
    replay(desk)
    desk.assembly.window.commands.new_chat()
    assert pages.currentWidget() is desk.chat
    desk.bot.waitUntil(lambda: not pages.findChildren(ReplayPage))


def test_the_numbers_of_an_answer_lead_there(desk: Desk) -> None:
    ask(desk)
    answer = desk.chat.transcript.last_answer()
    assert answer is not None
    answer.act(Act.NUMBERS)
    (details,) = desk.assembly.window.findChildren(AnswerDetails)
    details.rounds_button.click()
    assert text_of(replay(desk)) == ANSWER
    assert any(Act.ROUNDS in group for group in answer.groups())


def test_the_live_account_goes_on_beside_it(desk: Desk) -> None:
    ask(desk)
    desk.assembly.replays.show(desk.session.messages[-1].id)
    page = replay(desk)
    model = desk.assembly.window.pages
    desk.script.answer = "another answer of some words"
    desk.session.regenerate()
    desk.bot.waitUntil(lambda: desk.session.live is None)
    assert text_of(page) == ANSWER
    assert model.currentWidget() is page
    page.live.click()
    live = model.currentWidget()
    assert isinstance(live, PerformancePage)
    desk.bot.waitUntil(
        lambda: (
            "".join(each.text for each in live.board.tokens.sight.written.tokens.rounds)
            == desk.script.answer
        )
    )


def test_a_running_answer_opens_the_live_page(desk: Desk) -> None:
    desk.script.hold_after = 1
    desk.script.answer = ANSWER
    desk.type_and_send("Question")
    desk.streaming("one")
    desk.assembly.replays.show(desk.session.messages[-1].id)
    assert isinstance(desk.assembly.window.pages.currentWidget(), PerformancePage)
    desk.script.gate.set()
    desk.bot.waitUntil(lambda: desk.session.live is None)


@pytest.mark.parametrize("packed", [None, b"DTR\x02of a newer version", b"\x00damaged"])
def test_without_rounds_it_says_so(desk: Desk, packed: bytes | None) -> None:
    message_id = ask(desk)
    store = desk.assembly.store
    with store._file.writing():
        store._file.connection.execute("DELETE FROM answer_rounds")
    if packed is not None:
        store.answers.keep_rounds(message_id, packed)
    desk.assembly.replays.show(message_id)
    banners = desk.banners
    desk.bot.waitUntil(lambda: "The rounds of this answer were not kept." in banners.texts)
    assert desk.assembly.window.pages.shown is None


def test_the_newest_wish_counts(desk: Desk) -> None:
    first = ask(desk, "first answer here")
    second = ask(desk, "second answer here")
    desk.assembly.replays.show(first)
    desk.assembly.replays.show(second)
    assert text_of(replay(desk)) == "second answer here"
    desk.assembly.replays.show(10_000)
    QApplication.processEvents()
    assert text_of(replay(desk)) == "second answer here"


def test_a_recording_of_two_goes_is_one_answer(desk: Desk) -> None:
    desk.script.hold_after = 1
    desk.script.answer = ANSWER
    desk.type_and_send("Question")
    desk.streaming("one")
    desk.session.stop()
    desk.answered()
    desk.script.hold_after = None
    desk.session.continue_answer()
    desk.answered()
    keeper = desk.session.writer.keeper
    desk.bot.waitUntil(lambda: not keeper._waiting)
    desk.assembly.replays.show(desk.session.messages[-1].id)
    assert text_of(replay(desk)) == ANSWER
