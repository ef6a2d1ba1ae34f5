"""What happens where a message does not fit into the context."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from composing import OpenDesk, attach, fills, opened, small, three_turns, words
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel

from app.history import AnswerState
from engine.commands import Load
from engine.events import Failed, FailureKind, FinishReason


def test_what_does_not_fit_is_not_sent_and_the_oldest_can_be_left_out(
    open_desk: OpenDesk,
) -> None:
    desk = opened(open_desk, small(context=40))
    three_turns(desk)
    desk.chat.composer.field.setPlainText(words(14))
    fills(desk, 44)
    desk.chat.composer.send()
    card = desk.chat.context_card
    assert card.isVisible()
    field = desk.chat.composer.field
    assert field.hasFocus(), "somebody may be typing"
    QTest.keyClicks(field, " and ")
    assert field.toPlainText() == " and " + words(14)
    assert card.isVisible()
    field.setPlainText(words(16))
    desk.bot.waitUntil(lambda: "46 tokens" in card.text)
    field.setPlainText(words(14))
    desk.bot.waitUntil(lambda: "44 tokens" in card.text)
    assert "holds 40" in card.text
    assert len(desk.script.requests) == 3
    desk.bot.waitUntil(card.leave_out_button.isEnabled)
    assert card.leave_out_button.text() == "Leave out the 4 oldest messages"
    assert card.enlarge_button.isHidden(), "the model handles no more than that"
    card.leave_out_button.click()
    desk.answered()
    assert not card.isVisible()
    assert len(desk.script.requests[-1].messages) == 3
    assert len(desk.session.messages) == 8, "nothing is deleted"
    assert "4 oldest messages" in desk.chat.left_out.text
    assert [bool(each.divider) for each in desk.chat.transcript.bubbles] == [
        *(False, False, False, True),
        *(False, False, False, False),
    ]
    desk.chat.left_out.undo_button.click()
    assert not desk.chat.left_out.isVisible()
    assert not any(each.divider for each in desk.chat.transcript.bubbles)
    fills(desk, 49)


def test_no_more_is_left_out_than_has_to_be(open_desk: OpenDesk) -> None:
    desk = opened(open_desk, small(context=40))
    store = desk.assembly.store
    conversation = store.conversations.create("Long")
    for _ in range(16):
        store.answers.add_user_message(conversation.id, words(5))
    desk.session.open(conversation)
    desk.chat.composer.field.setPlainText(words(10))
    fills(desk, 90)
    desk.chat.composer.send()
    card = desk.chat.context_card
    desk.bot.waitUntil(card.leave_out_button.isEnabled)
    assert card.leave_out_button.text() == "Leave out the 12 oldest messages"


def test_the_system_prompt_is_never_left_out(open_desk: OpenDesk) -> None:
    desk = opened(open_desk, small(context=40))
    desk.session.set_setup(replace(desk.session.setup, system_prompt="Be brief."))
    three_turns(desk)
    desk.chat.composer.field.setPlainText(words(14))
    fills(desk, 46)
    desk.chat.composer.send()
    desk.bot.waitUntil(desk.chat.context_card.leave_out_button.isEnabled)
    desk.chat.context_card.leave_out_button.click()
    desk.answered()
    assert desk.script.requests[-1].messages[0].text == "Be brief."


def test_what_is_left_out_stays_left_out_after_a_restart(open_desk: OpenDesk) -> None:
    desk = opened(open_desk, small(context=40))
    three_turns(desk)
    third = desk.session.messages[3].id
    desk.session.set_setup(replace(desk.session.setup, seen_after=third))
    desk.assembly.close()
    again = opened(open_desk, small(context=40))
    assert again.chat.left_out.isVisible()
    again.type_and_send("More")
    again.answered()
    assert len(again.script.requests[-1].messages) == 3


def test_a_message_too_long_by_itself_can_be_shortened(open_desk: OpenDesk) -> None:
    desk = opened(open_desk, small(context=40))
    desk.script.answer = words(5)
    desk.type_and_send(words(5))
    desk.answered()
    desk.chat.composer.field.setPlainText(words(60))
    fills(desk, 70)
    desk.chat.composer.send()
    card = desk.chat.context_card
    desk.bot.waitUntil(card.leave_out_button.isHidden)
    card.dismiss_button.click()
    assert not card.isVisible()
    assert desk.chat.composer.field.toPlainText() == words(60)
    assert len(desk.script.requests) == 1


def test_of_files_that_do_not_fit_the_large_ones_give_way(
    open_desk: OpenDesk, tmp_path: Path
) -> None:
    desk = opened(open_desk, small(context=2_000))
    (tmp_path / "small.txt").write_text("whole\n\n" * 20)
    story = "\n\n".join(f"{words(150)} {'heron' if part == 7 else 'sparrow'}" for part in range(40))
    (tmp_path / "a long name of a file.txt").write_text(story)
    attach(desk, tmp_path / "small.txt")
    attach(desk, tmp_path / "a long name of a file.txt")
    desk.chat.composer.field.setPlainText("Where is the heron?")
    desk.bot.waitUntil(
        lambda: (fill := desk.chat.composer.meter.fill) is not None and fill.used > 2_000
    )
    desk.chat.composer.send()
    card = desk.chat.context_card
    desk.bot.waitUntil(card.parts_button.isVisible)
    card.parts_button.click()
    outgoing = desk.chat.outgoing
    desk.bot.waitUntil(lambda: bool(outgoing.attachments[-1].taken))
    one, part = outgoing.attachments
    assert (one.name, one.text, one.taken) == ("small.txt", "whole\n\n" * 20, "")
    assert "heron" in part.text
    assert len(part.text) < len(story) / 2
    chip = desk.chat.composer.chips.chips[-1]
    assert any(each.text().endswith(part.taken) for each in chip.findChildren(QLabel))
    assert part.taken.endswith("of 40 passages)")


def test_a_larger_context_is_loaded_and_the_message_sent(open_desk: OpenDesk) -> None:
    desk = opened(open_desk, small(context=40, limit=3000))
    desk.chat.composer.field.setPlainText(words(60))
    fills(desk, 60)
    desk.chat.composer.send()
    card = desk.chat.context_card
    assert card.enlarge_button.text().startswith("Use a context of 1,024 tokens (+")
    card.enlarge_button.click()
    desk.bot.waitUntil(lambda: bool(desk.assembly.settings.value.profiles))
    kept = desk.assembly.settings.value.profiled(Path("model")).profile
    assert kept.context == 1024, "it is there tomorrow"
    desk.bot.waitUntil(lambda: bool(desk.script.requests))
    desk.answered()
    loads = [each.context for each in desk.script.commands if isinstance(each, Load)]
    assert loads == [None, 1024]
    assert desk.chat.composer.field.toPlainText() == ""


def test_when_the_engine_finds_no_room_the_answer_can_still_be_had(open_desk: OpenDesk) -> None:
    desk = opened(open_desk, small(context=40))
    three_turns(desk)
    desk.script.fail_answer = Failed(
        0, None, "It is full.", "Shorten it.", kind=FailureKind.CONTEXT_FULL, needed=44
    )
    desk.session.send(words(14))
    desk.answered()
    card = desk.chat.context_card
    assert card.isVisible()
    assert desk.banners.texts == []
    desk.script.fail_answer = None
    desk.bot.waitUntil(card.leave_out_button.isEnabled)
    card.leave_out_button.click()
    assert desk.answered().text.raw_text == desk.script.answer
    assert len(desk.session.messages) == 8
    assert len(desk.script.requests[-1].messages) == 3


def test_an_answer_that_fills_the_context_can_go_on(open_desk: OpenDesk) -> None:
    desk = opened(open_desk, small(context=40))
    three_turns(desk)
    desk.script.answer, desk.script.reason = words(8), FinishReason.CONTEXT
    desk.type_and_send(words(5))
    desk.answered()
    card = desk.chat.context_card
    assert card.isVisible()
    assert "answer ends here" in card.text
    assert desk.session.messages[-1].state is AnswerState.FULL
    desk.script.answer, desk.script.reason = words(12), FinishReason.STOP
    desk.bot.waitUntil(card.leave_out_button.isEnabled)
    card.leave_out_button.click()
    assert desk.answered().text.raw_text == words(12)
    last = desk.script.requests[-1].messages
    assert last[-1].text == words(8), "it goes on from what was written"
    assert len(last) < 8


def test_the_card_goes_when_another_conversation_is_opened(open_desk: OpenDesk) -> None:
    desk = opened(open_desk, small(context=40))
    desk.type_and_send("Question")
    desk.answered()
    desk.chat.composer.field.setPlainText(words(60))
    fills(desk, 69)
    desk.chat.composer.send()
    assert desk.chat.context_card.isVisible()
    desk.session.open(None)
    assert not desk.chat.context_card.isVisible()


def test_what_was_attached_a_moment_ago_is_counted_before_it_is_sent(
    open_desk: OpenDesk, tmp_path: Path
) -> None:
    """Enter came sooner than the count: the message went, and its answer failed."""
    desk = opened(open_desk, small(context=2_000))
    desk.bot.waitUntil(lambda: desk.chat.composer.meter.fill is not None)
    (tmp_path / "long.txt").write_text(words(3_000))
    attach(desk, tmp_path / "long.txt")
    QTest.keyClicks(desk.chat.composer.field, "What is in it?")
    desk.chat.composer.send()
    desk.bot.waitUntil(desk.chat.context_card.isVisible)
    assert desk.script.requests == []
    assert desk.chat.composer.field.toPlainText() == "What is in it?"


def test_what_may_be_too_long_is_sent_once_it_is_counted(open_desk: OpenDesk) -> None:
    desk = opened(open_desk, small(context=40))
    fills(desk, 0)
    QTest.keyClicks(desk.chat.composer.field, words(10))
    desk.chat.composer.send()
    desk.bot.waitUntil(lambda: bool(desk.script.requests))
    desk.answered()
    assert len(desk.script.requests) == 1
    assert not desk.chat.context_card.isVisible()
