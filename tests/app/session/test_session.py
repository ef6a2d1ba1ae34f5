"""Branches, versions, setups: what the conversation in hand does, with a scripted engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from desk import Desk
from fake_engine import Script
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton, QToolButton

from app.history import AnswerState, ChatSetup, StoredMessage, TokenMarks
from app.session.request import seen
from app.settings import Preset
from app.settings.presets import BALANCED
from engine.errors import UserFixable
from engine.events import Failed, FinishReason, Interval, RoundFinished
from engine.request import Role

OpenDesk = Callable[[Script | None], Desk]


def texts(desk: Desk) -> list[str]:
    return [message.text for message in desk.session.messages]


def ask(desk: Desk, question: str, answer: str) -> None:
    desk.script.answer = answer
    desk.type_and_send(question)
    desk.answered()


def regenerated(desk: Desk) -> StoredMessage:
    desk.session.regenerate()
    return desk.answered().message


def test_regenerate_varies_what_would_come_again_and_says_so(desk: Desk) -> None:
    desk.session.set_setup(ChatSetup())
    ask(desk, "Question", "Answer")
    assert not desk.session.messages[-1].varied
    again = regenerated(desk)
    assert again.varied
    assert again.sampling == desk.script.requests[-1].sampling
    assert again.sampling.temperature == BALANCED.setup.temperature
    note = desk.answered().note
    assert "instead of your settings" in note
    assert f"seed {again.sampling.seed}" in note
    third = regenerated(desk)  # the first version is still the greedy one
    assert third.varied
    assert third.sampling.seed != again.sampling.seed
    desk.session.open(desk.session.current)
    assert [each.varied for each in desk.session.messages] == [False, True]
    assert "instead of your settings" in desk.answered().note


def test_a_fixed_seed_gives_way_and_the_temperature_stays(desk: Desk) -> None:
    desk.session.set_setup(ChatSetup(temperature=1.0, top_p=0.8, seed=7))
    ask(desk, "Question", "Answer")
    again = regenerated(desk)
    assert again.varied
    assert replace(again.sampling, seed=7) == ChatSetup(temperature=1.0, top_p=0.8).sampling(7)
    assert again.sampling.seed != 7


def test_regenerate_does_as_the_setup_says_where_another_text_comes(desk: Desk) -> None:
    desk.session.set_setup(ChatSetup())
    ask(desk, "Question", "Answer")
    desk.session.set_setup(ChatSetup(system_prompt="Be brief."))
    assert not regenerated(desk).varied
    desk.session.set_setup(ChatSetup(repetition_penalty=1.2))
    assert not regenerated(desk).varied
    desk.script.fail_answer = Failed(0, None, "Broken.", "Try again.", "")
    ask(desk, "And then?", "")
    desk.script.fail_answer = None
    assert not regenerated(desk).varied


def test_an_answer_that_repeats_itself_leaves_two_ways_on(desk: Desk) -> None:
    desk.session.set_setup(ChatSetup())
    desk.script.reason = FinishReason.REPETITION
    ask(desk, "Question", "on and on and on")
    answer = desk.answered()
    assert desk.script.requests[-1].stop_repetition
    assert answer.message.state is AnswerState.REPEATED
    assert "repeating itself" in answer.note
    ways = {stop.text(): stop for stop in answer.footer.stops if isinstance(stop, QToolButton)}
    desk.script.answer = "on and on and on and on and on"
    ways["Resume"].click()
    assert desk.answered().message.text == desk.script.answer
    assert not desk.script.requests[-1].stop_repetition
    desk.script.reason = FinishReason.STOP
    ways = {stop.text(): stop for stop in answer.footer.stops if isinstance(stop, QToolButton)}
    ways["Try again with variation"].click()
    varied = desk.answered().message
    assert varied.varied
    assert varied.sampling.temperature > 0
    assert varied.sampling.repetition_penalty > 1
    desk.assembly.settings.change(stop_repetition=False)
    regenerated(desk)
    assert not desk.script.requests[-1].stop_repetition


def two_turns(desk: Desk) -> None:
    ask(desk, "First question", "First answer")
    ask(desk, "Second question", "Second answer")


def test_any_answer_can_be_written_anew_and_the_old_branch_stays(desk: Desk) -> None:
    two_turns(desk)
    desk.script.answer = "Another first answer"
    desk.session.regenerate(desk.session.messages[1].id)
    desk.answered()
    assert texts(desk) == ["First question", "Another first answer"]
    newer = desk.session.messages[1]
    assert (newer.version, newer.versions) == (2, 2)
    assert [each.text for each in desk.script.requests[-1].messages] == ["First question"]
    desk.session.show_version(newer.id, -1)
    assert texts(desk) == ["First question", "First answer", "Second question", "Second answer"]
    desk.session.show_version(desk.session.messages[1].id, +1)
    assert texts(desk) == ["First question", "Another first answer"]


def test_an_edited_question_begins_a_new_branch(desk: Desk) -> None:
    two_turns(desk)
    old = texts(desk)
    desk.script.answer = "About tea"
    assert desk.session.edit(desk.session.messages[0].id, "What about tea?")
    desk.answered()
    assert texts(desk) == ["What about tea?", "About tea"]
    assert desk.session.current is not None
    assert desk.session.current.title == "What about tea?"
    desk.session.show_version(desk.session.messages[0].id, -1)
    assert texts(desk) == old
    shown = desk.chat.transcript
    desk.bot.waitUntil(lambda: [each.message.text for each in shown.bubbles] == old)


def test_a_title_that_was_given_stays_when_the_question_is_edited(desk: Desk) -> None:
    ask(desk, "First question", "First answer")
    assert desk.session.current is not None
    desk.session.conversations.rename(desk.session.current.id, "My title")
    desk.session.edit(desk.session.messages[0].id, "Another question")
    desk.answered()
    assert desk.session.current.title == "My title"


def test_a_question_in_the_middle_keeps_what_was_before_it(desk: Desk) -> None:
    two_turns(desk)
    changes: list[int] = []
    desk.session.branch_changed.connect(lambda first, _: changes.append(first))
    desk.session.edit(desk.session.messages[2].id, "Third question")
    desk.answered()
    assert changes == [2]
    assert texts(desk)[:3] == ["First question", "First answer", "Third question"]
    answer = desk.script.requests[-1].messages[1]
    assert answer.token_ids, "what was said before is reused as it was written"


def test_deleted_messages_come_back(desk: Desk) -> None:
    two_turns(desk)
    before = texts(desk)
    desk.session.delete_message(desk.session.messages[2].id)
    assert texts(desk) == before[:2]
    assert desk.banners.texts == ["2 messages were deleted."]
    buttons = desk.banners.findChildren(QPushButton)
    (undo,) = [button for button in buttons if button.text() == "Undo"]
    desk.bot.mouseClick(undo, Qt.MouseButton.LeftButton)
    assert texts(desk) == before


def test_deleting_the_question_that_is_being_answered_stops_the_answer(desk: Desk) -> None:
    ask(desk, "First question", "First answer")
    desk.script.answer, desk.script.hold_after = "one two three four five six", 1
    desk.type_and_send("Second question")
    desk.streaming("three ")
    desk.session.delete_message(desk.session.messages[2].id)
    assert texts(desk) == ["First question", "First answer"]
    desk.bot.waitUntil(lambda: desk.session.live is None)
    assert texts(desk) == ["First question", "First answer"]


def test_deleting_the_conversation_that_is_being_answered_stops_the_answer(desk: Desk) -> None:
    desk.script.answer, desk.script.hold_after = "one two three four five six", 1
    desk.type_and_send("Question")
    desk.streaming("three ")
    assert not desk.session.send("Another one")
    assert desk.session.current is not None
    desk.session.conversations.delete([desk.session.current.id])
    desk.bot.waitUntil(lambda: desk.session.live is None)
    assert desk.session.current is None
    assert not desk.session.send("  ")
    desk.session.continue_answer()  # there is none
    desk.session.delete_message(1 << 40)
    assert len(desk.script.requests) == 1
    assert desk.session.messages == []


def test_an_answer_that_filled_the_context_asks_for_room_before_it_goes_on(desk: Desk) -> None:
    desk.script.reason = FinishReason.CONTEXT
    ask(desk, "Question", "An answer")
    with desk.bot.waitSignal(desk.session.context_full):
        desk.session.continue_answer()
    assert len(desk.script.requests) == 1


def test_a_conversation_that_cannot_be_read_is_told_and_empty(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(desk, "Question", "Answer")
    damaged = desk.session.current

    def read(*_: object) -> None:
        raise UserFixable("The history is damaged.", "Restart.")

    monkeypatch.setattr(desk.session.branch._store.branches, "messages", read)
    desk.session.open(damaged)
    assert desk.session.messages == []
    assert "The history is damaged." in desk.banners.texts


def test_all_is_sent_where_what_was_left_out_has_gone() -> None:
    messages = [StoredMessage(number, Role.USER, "x") for number in (1, 2, 3)]
    assert seen(messages, ChatSetup(seen_after=2)) == messages[2:]
    assert seen(messages, ChatSetup(seen_after=9)) == messages


def test_an_older_version_can_be_read_while_the_new_one_is_written(desk: Desk) -> None:
    ask(desk, "Question", "Old answer")
    desk.script.answer, desk.script.hold_after = "one two three four five six", 1
    desk.session.regenerate()
    desk.streaming("three ")
    live = desk.session.messages[-1]
    desk.session.show_version(live.id, -1)
    assert texts(desk)[-1] == "Old answer"
    desk.session.show_version(desk.session.messages[-1].id, +1)
    desk.streaming("three ")
    desk.script.gate.set()
    desk.answered()
    assert texts(desk)[-1] == desk.script.answer
    assert desk.session.messages[-1].state is AnswerState.COMPLETE


def test_nothing_is_edited_while_an_answer_is_written(desk: Desk) -> None:
    desk.script.answer, desk.script.hold_after = "one two three four five six", 1
    desk.type_and_send("Question")
    desk.streaming("three ")
    assert not desk.session.edit(desk.session.messages[0].id, "Another one")
    assert desk.banners.texts == ["An answer is being written."]
    assert texts(desk)[0] == "Question"
    desk.script.gate.set()
    desk.answered()


def test_what_the_draft_guessed_is_kept_with_the_answer(desk: Desk) -> None:
    ask(desk, "Question", "one two three four five six")
    shown = desk.session.messages[-1]
    assert desk.session.current is not None
    (_, stored) = desk.assembly.store.branches.messages(desk.session.current.id)
    for message in (shown, stored):
        assert message.marks is not None
        spans = message.marks.spans()
        assert spans[-1].end == len(message.text)
        assert {span.origin.value for span in spans} == {"drafted", "target"}


class OneByOne(threading.Event):
    """A gate that lets one round through each time it is opened."""

    def __init__(self) -> None:
        super().__init__()
        self._tickets = threading.Semaphore(0)

    def set(self) -> None:
        self._tickets.release()

    def wait(self, timeout: float | None = None) -> bool:
        return self._tickets.acquire(timeout=timeout)


def test_pieces_reach_the_history_once_and_in_order(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, pieces = desk.assembly.store, []
    append = store.pieces.append

    def spy(message_id: int, text: str, ids: Sequence[int], marks: TokenMarks | None) -> None:
        pieces.append((text, tuple(ids), marks))
        append(message_id, text, ids, marks)

    monkeypatch.setattr(store.pieces, "append", spy)
    desk.session.writer._saver.setInterval(1)
    desk.script.gate, desk.script.hold_after = OneByOne(), 1
    desk.script.answer = "one two three four five six seven eight nine ten eleven twelve"
    desk.type_and_send("Question")
    for count in (1, 2, 3):
        desk.bot.waitUntil(lambda count=count: len(pieces) >= count)
        desk.script.gate.set()
    desk.script.hold_after = None
    desk.script.gate.set()
    desk.answered()
    assert len(pieces) > 2
    said = "".join(text for text, _, _ in pieces)
    ids = [each for _, some, _ in pieces for each in some]
    whole = desk.session.messages[-1]
    assert whole.text.startswith(said)
    assert whole.token_ids is not None
    assert list(whole.token_ids[: len(ids)]) == ids
    assert sum(len(marks) for _, _, marks in pieces if marks) == len(ids)


def test_the_live_answer_tells_what_the_target_refused(desk: Desk) -> None:
    told: list[tuple[int, str]] = []
    desk.script.answer, desk.script.hold_after = "one two three four five six", 1
    desk.type_and_send("Question")
    desk.streaming("three ")
    live = desk.session.live
    assert live is not None
    live.refused.connect(lambda at, text: told.append((at, text)))
    now = Interval(0.0, 0.0)
    done = RoundFinished(
        0.0, live.request_id, 9, (now,), now, 3, 1, 2, rejected=" fish", rejected_at=8
    )
    desk.assembly.bridge._events.append(done)
    desk.bot.waitUntil(lambda: (8, " fish") in told)
    desk.script.gate.set()
    desk.bot.waitUntil(lambda: desk.session.live is None)


def test_the_tint_can_be_switched_while_an_answer_is_written(desk: Desk) -> None:
    desk.script.answer, desk.script.hold_after = "one two three four five six", 1
    desk.type_and_send("Question")
    answer = desk.streaming("three ")
    marks = answer.text.marks
    assert not marks.tinted
    desk.assembly.settings.change(token_tint=True)
    before = len(marks._starts)
    assert before > 0
    desk.script.gate.set()
    desk.answered()
    assert len(marks._starts) > before
    desk.assembly.settings.change(token_tint=False)
    assert not marks.tinted


def test_drafted_words_are_underlined_with_one_click_at_the_answer(desk: Desk) -> None:
    desk.script.answer = "one two three four five six seven eight nine ten eleven"
    desk.type_and_send("Count")
    answer = desk.answered()

    def switch() -> QToolButton:
        names = {each.accessibleName(): each for each in answer.footer.stops}
        button = names["Underline drafted words"]
        assert isinstance(button, QToolButton)
        return button

    assert not switch().isChecked()
    desk.bot.mouseClick(switch(), Qt.MouseButton.LeftButton)
    assert desk.assembly.settings.value.token_tint
    assert answer.text.marks.tinted
    assert switch().isChecked()
    desk.bot.mouseClick(switch(), Qt.MouseButton.LeftButton)
    assert not desk.assembly.settings.value.token_tint
    assert not answer.text.marks.tinted


def test_buttons_of_the_messages_do_what_they_say(desk: Desk) -> None:
    two_turns(desk)
    transcript, first = desk.chat.transcript, desk.session.messages[0].id
    desk.script.answer = "Third answer"
    transcript.requests.edit.emit(first, "Third question")
    desk.answered()
    assert texts(desk) == ["Third question", "Third answer"]
    transcript.requests.show_version.emit(desk.session.messages[0].id, -1)
    assert len(texts(desk)) == 4
    transcript.requests.regenerate.emit(desk.session.messages[1].id)
    desk.answered()
    assert texts(desk) == ["First question", "Third answer"]
    transcript.requests.delete.emit(desk.session.messages[1].id)
    assert texts(desk) == ["First question", "First answer", "Second question", "Second answer"]


def test_a_hit_on_another_branch_is_shown_there(desk: Desk) -> None:
    two_turns(desk)
    hidden = desk.session.messages[3].id
    desk.session.edit(desk.session.messages[0].id, "Another question")
    desk.answered()
    desk.chat.reveal(hidden, ["answer"])
    assert texts(desk)[3] == "Second answer"


def test_a_continued_answer_has_marks_for_all_of_it(desk: Desk) -> None:
    desk.script.reason = FinishReason.STOPPED
    desk.script.answer = "one two three "
    desk.type_and_send("Count")
    desk.answered()
    desk.script.answer, desk.script.reason = "one two three four five six", FinishReason.STOP
    desk.session.continue_answer()
    desk.answered()
    marks = desk.session.messages[-1].marks
    assert marks is not None
    assert marks.spans()[-1].end == len(desk.script.answer)


def test_the_numbers_of_a_continued_answer_are_of_all_of_it(desk: Desk) -> None:
    desk.script.reason = FinishReason.STOPPED
    desk.script.answer = "one two three "
    desk.type_and_send("Count")
    desk.answered()
    first = desk.session.messages[-1].stats
    assert first is not None
    desk.script.answer, desk.script.reason = "one two three four five six", FinishReason.STOP
    desk.session.continue_answer()
    desk.answered()
    whole = desk.session.messages[-1]
    assert whole.stats is not None
    assert whole.token_ids is not None
    assert whole.stats.committed == len(whole.token_ids) > first.committed
    assert whole.stats.ttft_s == first.ttft_s
    assert whole.stats.rounds > first.rounds


def test_of_an_answer_that_was_cut_short_the_tokens_still_count(desk: Desk) -> None:
    desk.script.answer, desk.script.reason = "one two three ", FinishReason.STOPPED
    desk.type_and_send("Count")
    desk.answered()
    cut = replace(desk.session.messages[-1], stats=None)  # as after a kill
    desk.session.branch.replace_last(cut)
    desk.script.answer, desk.script.reason = "one two three four five six", FinishReason.STOP
    desk.session.continue_answer()
    desk.answered()
    whole = desk.session.messages[-1]
    assert whole.stats is not None
    assert whole.stats.committed == len(whole.token_ids or ()) > 3


def test_the_setup_goes_along_and_stays_with_its_conversation(open_desk: OpenDesk) -> None:
    desk = open_desk(None)
    desk.ready()
    setup = ChatSetup(
        system_prompt="Be brief.", temperature=0.5, top_k=7, max_tokens=50, thinking=False
    )
    desk.session.set_setup(setup)
    ask(desk, "Question", "Answer")
    request = desk.script.requests[-1]
    assert (request.messages[0].role, request.messages[0].text) == (Role.SYSTEM, "Be brief.")
    assert (request.sampling.temperature, request.sampling.top_k) == (0.5, 7)
    assert (request.max_tokens, request.thinking) == (50, False)
    first = desk.session.current
    desk.session.open(None)
    assert desk.session.setup == desk.assembly.settings.value.new_setup()
    desk.session.open(first)
    assert desk.session.setup == setup
    desk.assembly.close()
    again = open_desk(None)
    assert again.session.setup == setup


def test_new_chats_begin_with_the_default_preset(desk: Desk) -> None:
    settings = desk.assembly.settings
    mine = Preset("Mine", ChatSetup(temperature=1.5))
    settings.change(presets=(*settings.value.presets, mine), default_preset="Mine")
    assert desk.session.setup.temperature == 1.5
    assert desk.chat.composer.setup_button.text() == "Mine"
    ask(desk, "Question", "Answer")
    assert desk.script.requests[-1].sampling.temperature == 1.5


def test_answers_to_a_fixed_seed_use_it_and_others_a_new_one(desk: Desk) -> None:
    desk.session.set_setup(ChatSetup(temperature=1.0, seed=7))
    ask(desk, "Question", "Answer")
    desk.session.set_setup(ChatSetup(temperature=1.0))
    desk.session.regenerate()
    desk.answered()
    desk.session.regenerate()
    desk.answered()
    first, second, third = (request.sampling.seed for request in desk.script.requests)
    assert first == 7
    assert len({first, second, third}) == 3
