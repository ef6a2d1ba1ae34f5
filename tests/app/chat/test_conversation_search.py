"""Find in a conversation: the bar, the count, and what is folded."""

from __future__ import annotations

import pytest
from desk import Desk
from PySide6.QtCore import QPoint, Qt

from app.chat.conversation_search import matches_in
from app.chat.messages.user_message import UserMessage
from app.history import StoredMessage
from app.session.attachments import Attachment, with_attachments
from engine.request import Role

# What a window without a screen cannot do, Qt says for every dialog.
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

_CONTROL = Qt.KeyboardModifier.ControlModifier


def _ask(desk: Desk, question: str, answer: str) -> None:
    desk.script.answer = answer
    desk.session.send(question)
    desk.answered()


def _find(desk: Desk, words: str) -> None:
    desk.bot.keyClick(desk.chat.composer.field, Qt.Key.Key_F, _CONTROL)
    assert desk.chat.find_bar.field.hasFocus()
    desk.chat.find_bar.field.setText(words)  # as a paste: one search
    desk.bot.waitUntil(lambda: " of " in desk.chat.find_bar.words)
    desk.bot.waitUntil(lambda: desk.chat.transcript.settled)


def test_places_count_utf16_units_and_case_does_not_matter() -> None:
    messages = [
        StoredMessage(7, Role.USER, "\U0001f600 Word, word"),
        StoredMessage(8, Role.USER, "x"),
    ]
    found = matches_in(messages, "word")
    assert [(each.message_id, each.start, each.end) for each in found] == [(7, 3, 7), (7, 9, 13)]
    assert matches_in(messages, "  ") == []


def test_matches_are_counted_gone_through_and_left_with_escape(desk: Desk) -> None:
    for number in range(6):
        _ask(desk, f"Question {number}", "filler\n\n" * 12 + f"needle {number}")
    _find(desk, "Needle")
    bar, transcript = desk.chat.find_bar, desk.chat.transcript
    place = int(bar.words.split()[0])
    assert bar.words.endswith("of 6")
    for _ in range(6):
        desk.bot.keyClick(bar.field, Qt.Key.Key_Return)
        desk.bot.waitUntil(lambda: transcript.settled)
        number = int(bar.words.split()[0]) - 1
        answer = transcript.bubble_at(2 * number + 1)
        rect = answer.text.source_rect(*answer.text.marks.mark or (0, 0))
        assert rect is not None
        y = answer.text.mapTo(transcript.viewport(), rect.topLeft().toPoint()).y()
        assert 0 <= y < transcript.viewport().height()
    assert int(bar.words.split()[0]) == place
    desk.bot.keyClick(bar.field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    assert int(bar.words.split()[0]) == (place - 2) % 6 + 1
    desk.bot.keyClicks(bar.field, "x")
    desk.bot.waitUntil(lambda: bar.words == "No matches")
    desk.bot.keyClick(bar.field, Qt.Key.Key_Escape)
    assert not bar.isVisible()
    assert desk.chat.composer.field.hasFocus()
    assert not any(each.text.marks.any for each in transcript.bubbles)


def test_what_is_folded_opens_for_its_match(desk: Desk) -> None:
    code = "\n".join(f"line {number}" for number in range(100))
    sent = with_attachments([Attachment("a.txt", code, 1)], "What is this?")
    _ask(desk, sent, "<think>Some secret thought.</think>An answer.")
    _find(desk, "secret")
    answer = desk.chat.transcript.last_answer()
    assert answer is not None
    assert answer.text._thoughts[0].opened
    desk.chat.find_bar.field.setText("line 77")
    question = desk.chat.transcript.bubble_at(0)
    assert isinstance(question, UserMessage)
    (file,) = question.files
    desk.bot.waitUntil(lambda: file.opened and desk.chat.transcript.settled)
    assert file.text is not None
    mark = file.text.marks.mark
    assert mark is not None
    assert sent[mark[0] : mark[1]] == "line 77"
    rect = file.text.source_rect(*mark)
    assert rect is not None
    y = file.text.mapTo(desk.chat.transcript.viewport(), QPoint(0, int(rect.top()))).y()
    assert 0 <= y < desk.chat.transcript.viewport().height()


def test_a_new_answer_is_counted_and_the_place_stays(desk: Desk) -> None:
    _ask(desk, "one needle", "no more")
    _find(desk, "needle")
    assert desk.chat.find_bar.words == "1 of 1"
    desk.script.answer = "a needle and another needle"
    desk.session.send("Go on")
    desk.answered()
    desk.bot.waitUntil(lambda: desk.chat.find_bar.words == "1 of 3")
    desk.session.delete_message(desk.session.messages[0].id)
    desk.bot.waitUntil(lambda: desk.chat.find_bar.words == "No matches")


def test_another_conversation_ends_the_search(desk: Desk) -> None:
    _ask(desk, "needle", "needle")
    _find(desk, "needle")
    assert desk.chat.find_bar.words.endswith("of 2")
    desk.session.open(None)
    assert not desk.chat.find_bar.isVisible()
