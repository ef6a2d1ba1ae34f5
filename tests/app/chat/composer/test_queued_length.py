"""Messages that wait behind an answer are counted: what does not fit says so before its turn."""

from __future__ import annotations

import pytest
from composing import OpenDesk, fills, opened, small, tabbed_back, words
from desk import Desk
from PySide6.QtCore import Qt
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


def test_the_card_gives_the_keyboard_back(narrow: Desk) -> None:
    """Not to the button beside it, which would take back what was chosen."""
    narrow.type_and_send(words(40))
    narrow.bot.waitUntil(lambda: narrow.chat.waiting.lines[0].state.startswith("Does not fit"))
    narrow.script.gate.set()
    card = narrow.chat.context_card
    narrow.bot.waitUntil(lambda: card.isVisible() and card.leave_out_button.isEnabled())
    card.leave_out_button.setFocus()
    narrow.bot.keyClick(card.leave_out_button, Qt.Key.Key_Return)
    narrow.bot.waitUntil(lambda: len(narrow.script.requests) == 2)
    assert narrow.chat.composer.field.hasFocus()


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


def turn_over(desk: Desk) -> None:
    """Wait until the answer has ended and the next message has had its turn."""
    turn = desk.chat.outgoing._queue._turn
    desk.bot.waitUntil(lambda: desk.session.live is None and not turn.isActive())
    QApplication.processEvents()


def leave_until_answered(desk: Desk) -> None:
    """Go to another conversation and back once the answer has ended."""
    first = desk.session.current
    desk.session.open(None)
    desk.script.gate.set()
    desk.bot.waitUntil(lambda: desk.session.live is None)
    desk.session.open(first)


def test_back_in_a_conversation_what_does_not_fit_is_not_sent(narrow: Desk) -> None:
    narrow.type_and_send(words(40))
    leave_until_answered(narrow)
    narrow.bot.waitUntil(narrow.chat.context_card.isVisible)
    assert len(narrow.script.requests) == 1
    assert narrow.chat.waiting.lines[0].state.startswith("Does not fit")


@pytest.mark.parametrize("typed", ["", "typed meanwhile"])
def test_back_in_a_conversation_what_fits_is_sent(narrow: Desk, typed: str) -> None:
    """Also while something is typed there, which is no part of what is sent."""
    narrow.type_and_send(words(10))
    narrow.chat.composer.field.setPlainText(typed)
    leave_until_answered(narrow)
    narrow.bot.waitUntil(lambda: len(narrow.script.requests) == 2)
    assert narrow.chat.composer.field.toPlainText() == typed
    narrow.answered()
    fills(narrow, 30 + 10 + 29 + len(typed.split()))


def test_what_is_not_counted_when_its_turn_comes_waits_for_its_count(narrow: Desk) -> None:
    narrow.script.counting = False
    narrow.type_and_send(words(40))
    narrow.script.gate.set()
    turn_over(narrow)
    assert len(narrow.script.requests) == 1
    narrow.script.counting = True
    narrow.chat.outgoing._queue.count_again()
    narrow.bot.waitUntil(narrow.chat.context_card.isVisible)
    assert len(narrow.script.requests) == 1


def test_what_waits_for_its_count_is_sent_by_hand_at_once(narrow: Desk) -> None:
    narrow.script.counting = False
    narrow.type_and_send(words(10))
    leave_until_answered(narrow)
    turn_over(narrow)
    assert len(narrow.script.requests) == 1
    narrow.chat.waiting.lines[0].send_button.click()
    narrow.bot.waitUntil(lambda: len(narrow.script.requests) == 2)


def test_what_waits_for_its_count_is_sent_by_the_next_model(narrow: Desk) -> None:
    """No message goes to no model, and none is stuck behind one that has gone."""
    narrow.script.counting = False
    narrow.type_and_send(words(10))
    narrow.script.gate.set()
    turn_over(narrow)
    running, bridge = narrow.assembly.models.running, narrow.assembly.bridge
    load = bridge.status.loaded
    assert load is not None
    running.unload()
    narrow.bot.waitUntil(lambda: bridge.status.plan is None)
    turn_over(narrow)
    assert len(narrow.script.requests) == 1
    narrow.script.counting = True
    running.begin(load)
    narrow.bot.waitUntil(lambda: len(narrow.script.requests) == 2)


def test_what_cannot_be_counted_is_sent(narrow: Desk) -> None:
    """The engine says what is wrong with it."""
    narrow.script.uncountable = "The template says no."
    narrow.type_and_send(words(10))
    leave_until_answered(narrow)
    narrow.bot.waitUntil(lambda: len(narrow.script.requests) == 2)


def test_an_answer_stopped_before_its_first_word_counts(narrow: Desk) -> None:
    """The message that it was to answer fills the context all the same."""
    narrow.script.gate.set()
    narrow.answered()
    fills(narrow, 30)
    narrow.script.gate.clear()
    narrow.script.hold_after = 0
    narrow.type_and_send("a b c d e f g h i j")  # so short that it is not counted first
    narrow.type_and_send(words(25))
    narrow.session.stop()
    narrow.bot.waitUntil(narrow.chat.context_card.isVisible)
    assert len(narrow.script.requests) == 2


def test_the_buttons_of_what_waits_are_before_the_field_where_tab_goes(narrow: Desk) -> None:
    narrow.type_and_send(words(5))
    (line,) = narrow.chat.waiting.lines
    names = [each.accessibleName() for each in line.buttons]
    assert tabbed_back(narrow, 3) == names[::-1]
    line.remove_button.setFocus()
    narrow.bot.keyClick(line.remove_button, Qt.Key.Key_Return)
    assert narrow.chat.waiting.lines == []
    assert narrow.chat.composer.field.hasFocus()
