"""Messages that wait for the answer before them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from desk import Desk
from fake_engine import Script
from PySide6.QtWidgets import (
    QApplication,
)

from app.history import AnswerState
from app.shell.page_names import PageName
from engine.events import FinishReason
from engine.request import Role

# What a window without a screen cannot do, Qt says for every dialog.
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

OpenDesk = Callable[[Script | None], Desk]


def _being_written(desk: Desk) -> None:
    desk.script.answer = "one two three four five six seven eight nine"
    desk.script.hold_after = 1
    desk.type_and_send("First")
    desk.streaming("one two three ")


def test_a_message_waits_for_the_end_of_the_answer_also_behind_a_page(desk: Desk) -> None:
    _being_written(desk)
    desk.type_and_send("Second")
    desk.type_and_send("Third")
    assert desk.chat.composer.field.toPlainText() == ""
    waiting = desk.chat.waiting
    assert [line.draft.text for line in waiting.lines] == ["Second", "Third"]
    assert waiting.isVisible()
    assert len(desk.session.messages) == 2
    desk.assembly.window.pages.open(PageName.MODELS)
    desk.script.gate.set()
    desk.bot.waitUntil(lambda: len(desk.session.messages) == 6 and desk.session.live is None)
    said = [each.text for each in desk.session.messages if each.role is Role.USER]
    assert said == ["First", "Second", "Third"]
    assert waiting.lines == []
    assert waiting.isHidden()


def test_messages_of_a_new_chat_wait_for_the_answer_in_another_one(desk: Desk) -> None:
    _being_written(desk)
    first = desk.session.current
    desk.session.open(None)
    desk.type_and_send("Second")
    desk.type_and_send("Third")
    assert desk.session.current is None
    desk.script.gate.set()
    desk.bot.waitUntil(lambda: len(desk.session.messages) == 4 and desk.session.live is None)
    said = [each.text for each in desk.session.messages if each.role is Role.USER]
    assert said == ["Second", "Third"]
    assert desk.session.current not in (None, first)
    assert desk.chat.waiting.lines == []


def test_a_waiting_message_is_edited_taken_away_or_sent_at_once(desk: Desk) -> None:
    _being_written(desk)
    for text in ("Second", "Third", "Fourth"):
        desk.type_and_send(text)
    waiting = desk.chat.waiting
    waiting.lines[1].remove_button.click()
    waiting.lines[0].edit_button.click()
    assert desk.chat.composer.field.toPlainText() == "Second"
    assert [line.draft.text for line in waiting.lines] == ["Fourth"]
    desk.script.hold_after = None
    waiting.lines[0].send_button.click()
    desk.bot.waitUntil(lambda: len(desk.session.messages) == 4 and desk.session.live is None)
    assert desk.session.messages[1].state is AnswerState.STOPPED
    assert desk.session.messages[2].text == "Fourth"


def test_behind_a_failed_answer_messages_go_on_waiting(desk: Desk) -> None:
    desk.script.reason = FinishReason.ERROR
    _being_written(desk)
    desk.type_and_send("Second")
    desk.script.gate.set()
    desk.answered()
    QApplication.processEvents()  # a message that is sent goes with the next turn
    assert len(desk.session.messages) == 2
    desk.script.reason = FinishReason.STOP
    (line,) = desk.chat.waiting.lines
    line.send_button.click()
    desk.bot.waitUntil(lambda: len(desk.session.messages) == 4 and desk.session.live is None)


def test_what_waited_is_typed_text_again_after_a_restart(open_desk: OpenDesk) -> None:
    desk = open_desk(None)
    desk.ready()
    _being_written(desk)
    desk.type_and_send("Second")
    here, field = desk.session.current, desk.chat.composer.field
    desk.session.open(None)
    desk.chat.outgoing.end()
    desk.session.open(here)
    assert field.toPlainText() == "Second"
    desk.chat.composer.send()
    assert field.toPlainText() == ""
    desk.assembly.close()
    again = open_desk(None)
    assert again.chat.composer.field.toPlainText() == "Second"
