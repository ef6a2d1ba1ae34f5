"""Messages that wait behind an answer are counted: what does not fit says so before its turn."""

from __future__ import annotations

import pytest
from composing import OpenDesk, fills, opened, small, words
from desk import Desk
from PySide6.QtWidgets import QApplication


@pytest.fixture
def narrow(open_desk: OpenDesk) -> Desk:
    """An answer is being written that takes half of the context of 60 tokens."""
    desk = opened(open_desk, small(context=60, limit=60))
    desk.script.answer, desk.script.hold_after = words(29), 1
    desk.type_and_send("First")
    desk.streaming(words(3))
    return desk


def test_a_message_that_will_not_fit_says_so_before_its_turn(narrow: Desk) -> None:
    narrow.type_and_send(words(10))
    narrow.type_and_send(words(26))
    fits, does_not = narrow.chat.waiting.lines
    narrow.bot.waitUntil(lambda: does_not.state == "Does not fit into the context")
    assert fits.state == "Waiting"
    assert "context holds 60" in does_not.toolTip()
    assert "Does not fit" in does_not.accessibleName()
    does_not.remove_button.click()
    narrow.script.gate.set()
    narrow.bot.waitUntil(lambda: len(narrow.session.messages) == 4)
    narrow.answered()


def test_at_the_turn_of_a_message_that_does_not_fit_the_user_chooses(narrow: Desk) -> None:
    narrow.type_and_send(words(40))
    narrow.bot.waitUntil(lambda: narrow.chat.waiting.lines[0].state.startswith("Does not fit"))
    narrow.script.gate.set()
    card = narrow.chat.context_card
    narrow.bot.waitUntil(card.isVisible)
    assert "holds 60" in card.text
    fills(narrow, 30)
    assert card.isVisible(), "it is not about what is typed"
    assert len(narrow.script.requests) == 1
    card.dismiss_button.click()
    narrow.session.changed.emit()
    QApplication.processEvents()
    assert not card.isVisible(), "it was told once"
    (line,) = narrow.chat.waiting.lines
    assert line.state == "Does not fit into the context"
    line.remove_button.click()
    assert narrow.chat.waiting.lines == []
    assert len(narrow.session.messages) == 2


def test_the_card_of_a_waiting_message_goes_with_it(narrow: Desk) -> None:
    narrow.type_and_send(words(40))
    narrow.bot.waitUntil(lambda: narrow.chat.waiting.lines[0].state.startswith("Does not fit"))
    narrow.script.gate.set()
    card = narrow.chat.context_card
    narrow.bot.waitUntil(card.isVisible)
    narrow.chat.waiting.lines[0].edit_button.click()
    assert not card.isVisible()
    assert narrow.chat.composer.field.toPlainText() == words(40)


def test_a_waiting_message_is_sent_once_there_is_room(narrow: Desk) -> None:
    narrow.type_and_send(words(40))
    narrow.bot.waitUntil(lambda: narrow.chat.waiting.lines[0].state.startswith("Does not fit"))
    narrow.script.gate.set()
    card = narrow.chat.context_card
    narrow.bot.waitUntil(lambda: card.isVisible() and card.leave_out_button.isEnabled())
    card.leave_out_button.click()
    narrow.bot.waitUntil(lambda: len(narrow.session.messages) == 4)
    narrow.answered()
    assert len(narrow.script.requests[-1].messages) == 1
    assert not card.isVisible()


def test_what_waits_in_another_conversation_is_counted_once_it_is_on_show(narrow: Desk) -> None:
    """As it may not have been by the model that has come meanwhile."""
    narrow.type_and_send(words(40))
    narrow.bot.waitUntil(lambda: narrow.chat.waiting.lines[0].state.startswith("Does not fit"))
    first, queue = narrow.session.current, narrow.chat.outgoing._queue
    narrow.session.open(None)
    queue.count_again()
    narrow.session.open(first)
    narrow.bot.waitUntil(lambda: queue.tokens >= 40)


def test_what_is_taken_out_is_not_kept(narrow: Desk) -> None:
    """Files that are attached can be large."""
    for _ in range(2):
        narrow.type_and_send(words(10))
    queue = narrow.chat.outgoing._queue
    narrow.bot.waitUntil(lambda: queue.tokens >= 20)
    for left in (1, 0):
        narrow.chat.waiting.lines[0].remove_button.click()
        assert len(queue._tokens) == left
