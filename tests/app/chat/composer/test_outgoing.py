"""What is about to be sent: drafts, files, the meter, and what happens when it does not fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
from desk import Desk
from fake_engine import Script
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog

from app.chat.composer.message_field import LONG_PASTE
from app.history import AnswerState, ChatSetup
from app.history.columns import pack_setup, unpack_setup
from app.session.attachments import Attachment, sent_files
from engine.commands import Count, Load
from engine.errors import Cancelled, UserFixable
from engine.events import Failed, FailureKind, FinishReason
from engine.request import Role

OpenDesk = Callable[[Script | None], Desk]


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.chat.composer.outgoing._PAUSE_MS", 20)
    monkeypatch.setattr("app.session.message_drafts._SAVE_AFTER_MS", 20)


def words(count: int) -> str:
    return "word " * (count - 1) + "word"


def attach(desk: Desk, path: Path) -> None:
    before = len(desk.chat.outgoing.attachments)
    desk.chat.outgoing.attach([path])
    desk.bot.waitUntil(lambda: len(desk.chat.outgoing.attachments) == before + 1)


def paste(desk: Desk, text: str) -> None:
    data = QMimeData()
    data.setText(text)
    desk.chat.composer.field.insertFromMimeData(data)


def fills(desk: Desk, tokens: int) -> None:
    """Wait until the meter says so many."""

    def shown() -> bool:
        fill = desk.chat.composer.meter.fill
        return fill is not None and fill.used == tokens

    desk.bot.waitUntil(shown)


def small(context: int, limit: int = 0) -> Script:
    script = Script()
    script.plan = replace(script.plan, context=context, context_limit=limit)
    return script


def opened(open_desk: OpenDesk, script: Script) -> Desk:
    desk = open_desk(script)
    desk.ready()
    return desk


def three_turns(desk: Desk) -> None:
    """Six messages of five tokens each."""
    desk.script.answer = words(5)
    for _ in range(3):
        desk.type_and_send(words(5))
        desk.answered()


# -- drafts ------------------------------------------------------------------------------------


def test_what_was_typed_waits_in_its_conversation(desk: Desk, tmp_path: Path) -> None:
    desk.type_and_send("Question")
    desk.answered()
    first = desk.session.current
    field = desk.chat.composer.field
    (tmp_path / "notes.txt").write_text("some notes")
    field.setPlainText("for the first chat")
    attach(desk, tmp_path / "notes.txt")
    desk.session.open(None)
    assert field.toPlainText() == ""
    assert desk.chat.outgoing.attachments == []
    field.setPlainText("for the new chat")
    desk.session.open(first)
    assert field.toPlainText() == "for the first chat"
    assert [each.name for each in desk.chat.outgoing.attachments] == ["notes.txt"]
    desk.session.open(None)
    assert field.toPlainText() == "for the new chat"


def test_what_was_typed_is_there_after_a_crash(open_desk: OpenDesk) -> None:
    desk = opened(open_desk, Script())
    desk.chat.composer.field.setPlainText("half a thou")
    folder = desk.assembly.store.path.parent / "drafts"
    desk.bot.waitUntil((folder / "new.json").exists)
    desk.assembly.store.close()  # as after a kill: nobody says good-bye
    again = open_desk(None)
    assert again.chat.composer.field.toPlainText() == "half a thou"
    again.type_and_send("sent")
    again.answered()
    again.assembly.close()
    assert list(folder.glob("*.json")) == []


def test_what_was_typed_stays_when_an_example_is_sent(desk: Desk) -> None:
    desk.chat.composer.field.setPlainText("my own words")
    desk.chat.greeting.examples[0].click()
    desk.answered()
    assert desk.chat.composer.field.toPlainText() == "my own words"
    desk.session.open(None)
    assert desk.chat.composer.field.toPlainText() == ""


def test_a_drop_on_the_chat_attaches_the_file(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("some notes")
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(tmp_path / "notes.txt"))])
    place, copy = QPoint(200, 100), Qt.DropAction.CopyAction
    state = (copy, data, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier)
    enter = QDragEnterEvent(place, *state)
    desk.chat.dragEnterEvent(enter)
    assert enter.isAccepted()
    desk.chat.dropEvent(QDropEvent(QPointF(place), *state))
    desk.bot.waitUntil(lambda: len(desk.chat.outgoing.attachments) == 1)


def test_drafts_of_deleted_conversations_go(open_desk: OpenDesk) -> None:
    desk = opened(open_desk, Script())
    desk.type_and_send("Question")
    desk.answered()
    conversation = desk.session.current
    assert conversation is not None
    desk.chat.composer.field.setPlainText("unsent")
    desk.session.open(None)
    desk.session.conversations.delete([conversation.id])
    desk.assembly.close()
    folder = desk.assembly.store.path.parent / "drafts"
    assert (folder / f"{conversation.id}.json").exists()
    again = open_desk(None)
    assert (folder / f"{conversation.id}.json").exists(), "it lies in the trash"
    again.assembly.store.trash.empty()
    again.session.conversations.refresh()
    assert not (folder / f"{conversation.id}.json").exists()


# -- files -------------------------------------------------------------------------------------


def test_files_go_along_with_their_names(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("print(1)\n")
    (tmp_path / "b.txt").write_text("hello")
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(tmp_path / name)) for name in ("a.py", "b.txt")])
    desk.chat.composer.field.insertFromMimeData(data)
    desk.bot.waitUntil(lambda: len(desk.chat.composer.chips.chips) == 2)
    chip = desk.chat.composer.chips.chips[0]
    desk.bot.waitUntil(lambda: "token" in chip.about)
    assert chip.about.startswith("9 bytes")
    desk.type_and_send("What is in them?")
    desk.answered()
    (sent,) = desk.script.requests[0].messages
    files, said = sent_files(sent.text)
    assert sent.text[said:] == "What is in them?"
    assert [file.name for file in files] == ["a.py", "b.txt"]
    assert "```py\nprint(1)\n```" in sent.text
    assert desk.chat.composer.chips.chips == []
    assert desk.session.current is not None
    assert desk.session.current.title == "What is in them?"


def test_a_file_can_be_sent_alone_and_taken_away_before(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("alpha")
    (tmp_path / "b.txt").write_text("beta")
    attach(desk, tmp_path / "a.txt")
    attach(desk, tmp_path / "b.txt")
    desk.chat.composer.chips.chips[0].removed.emit()
    assert [each.name for each in desk.chat.outgoing.attachments] == ["b.txt"]
    assert desk.chat.composer.send_button.isEnabled()
    desk.chat.composer.send()
    desk.answered()
    assert "alpha" not in desk.script.requests[0].messages[0].text
    assert "beta" in desk.script.requests[0].messages[0].text


def test_what_is_no_text_is_refused_in_words(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    desk.chat.outgoing.attach([tmp_path / "photo.png"])
    desk.bot.waitUntil(lambda: bool(desk.banners.texts))
    assert desk.banners.texts == [
        "\u201cphoto.png\u201d is a picture, and the models that Duotail runs see text only."
    ]


def test_a_long_text_from_the_clipboard_goes_beside_the_message(desk: Desk) -> None:
    paste(desk, "short")
    paste(desk, "x" * (LONG_PASTE + 1))
    desk.bot.waitUntil(lambda: len(desk.chat.outgoing.attachments) == 1)
    assert desk.chat.composer.field.toPlainText() == "short"
    assert desk.chat.outgoing.attachments[0].name == "Pasted text 1"


def test_many_pasted_lines_are_a_chip_that_goes_back_into_the_field(desk: Desk) -> None:
    lines = "\n".join(f"line {number}" for number in range(41))
    paste(desk, "\n".join(lines.split("\n")[:40]))
    assert desk.chat.composer.field.toPlainText().count("\n") == 39
    desk.chat.composer.field.clear()
    paste(desk, lines)
    desk.bot.waitUntil(lambda: len(desk.chat.composer.chips.chips) == 1)
    (chip,) = desk.chat.composer.chips.chips
    assert "41 lines" in chip.about
    assert chip.text_button is not None
    chip.text_button.click()
    assert desk.chat.composer.field.toPlainText() == lines
    assert not desk.chat.outgoing.attachments
    assert desk.chat.composer.field.hasFocus()


def test_a_document_has_a_chip_while_it_is_read_and_the_message_waits_for_it(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Event()

    def read(path: Path, stopped: Callable[[], bool]) -> Attachment:
        assert gate.wait(5)
        if stopped():
            raise Cancelled
        return Attachment(path.name, "its text", 8)

    monkeypatch.setattr("app.chat.composer.outgoing.read_attachment", read)
    desk.chat.outgoing.attach([tmp_path / "wanted.pdf", tmp_path / "unwanted.docx"])
    wanted, unwanted = desk.chat.composer.chips.chips
    assert wanted.about == "Reading\u2026"
    unwanted.removed.emit()
    desk.type_and_send("What does it say?")
    assert not desk.session.messages
    assert "still being read" in desk.banners.texts[0]
    gate.set()
    desk.bot.waitUntil(lambda: len(desk.chat.outgoing.attachments) == 1)
    desk.chat.composer.send()
    desk.answered()
    assert "its text" in desk.session.messages[0].text
    assert "unwanted" not in desk.session.messages[0].text


def test_the_encoding_of_an_attached_file_can_be_changed(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "alt.txt").write_bytes("Grüße".encode("cp1252"))
    (tmp_path / "new.txt").write_bytes("Grüße".encode())
    chips = desk.chat.composer.chips
    desk.chat.outgoing.attach([tmp_path / "alt.txt", tmp_path / "new.txt"])
    desk.bot.waitUntil(lambda: len(chips.chips) == 2)
    assert chips.chips[1].encoding_button is None
    button = chips.chips[0].encoding_button
    assert button is not None
    assert button.text() == "Western European (Windows-1252)"
    menu = button.menu()
    (cyrillic,) = (each for each in menu.actions() if each.text() == "Cyrillic (Windows-1251)")
    cyrillic.trigger()
    desk.bot.waitUntil(lambda: desk.chat.outgoing.attachments[0].encoding == "cp1251")
    assert desk.chat.outgoing.attachments[0].text == "Grüße".encode("cp1252").decode("cp1251")
    assert [each.name for each in desk.chat.outgoing.attachments] == ["alt.txt", "new.txt"]


@pytest.mark.qt_log_ignore("This plugin does not support")
def test_files_are_chosen_in_a_dialog(desk: Desk, tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(name)
    desk.chat.outgoing.ask_for_files()
    (dialog,) = desk.assembly.window.findChildren(QFileDialog)
    dialog.filesSelected.emit([str(tmp_path / "a.txt"), str(tmp_path / "b.txt")])
    desk.bot.waitUntil(lambda: len(desk.chat.outgoing.attachments) == 2)
    dialog.reject()


def test_a_file_belongs_to_the_conversation_it_was_given_in(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it is read only after the user has gone on to another one."""
    gate = Event()

    def read(path: Path, stopped: Callable[[], bool] = lambda: False) -> Attachment:
        assert gate.wait(5)
        if stopped():
            raise Cancelled
        if path.name == "bad.pdf":
            raise UserFixable("“bad.pdf” is damaged.", "Choose another file.")
        return Attachment(path.name, "its text", 8, notice="Only the beginning was read.")

    monkeypatch.setattr("app.chat.composer.outgoing.read_attachment", read)
    desk.type_and_send("Question")
    desk.answered()
    first = desk.session.current
    desk.chat.composer.field.setPlainText("half written")
    desk.chat.outgoing.attach([tmp_path / "good.pdf", tmp_path / "bad.pdf"])
    desk.session.open(None)
    assert desk.chat.composer.chips.chips == []
    gate.set()
    desk.bot.waitUntil(lambda: len(desk.banners.texts) == 2)
    assert set(desk.banners.texts) == {"Only the beginning was read.", "“bad.pdf” is damaged."}
    assert desk.chat.outgoing.attachments == []
    desk.session.open(first)
    assert [each.name for each in desk.chat.outgoing.attachments] == ["good.pdf"]
    assert desk.chat.composer.field.toPlainText() == "half written"
    gate.clear()
    desk.chat.outgoing.attach([tmp_path / "late.pdf"])
    (late,) = desk.chat.outgoing._reading
    desk.chat.outgoing.end()
    assert late.stop.is_set()
    gate.set()


def test_pasted_lines_stay_a_chip_where_the_field_has_no_room_for_them(desk: Desk) -> None:
    paste(desk, "\n".join(f"line {number}" for number in range(41)))
    desk.bot.waitUntil(lambda: len(desk.chat.composer.chips.chips) == 1)
    desk.chat.composer.field.setPlainText("word " * 6_000)
    (chip,) = desk.chat.composer.chips.chips
    assert chip.text_button is not None
    chip.text_button.click()
    assert desk.banners.texts == ["This text is too long for the message field."]
    assert len(desk.chat.outgoing.attachments) == 1


# -- the meter ---------------------------------------------------------------------------------


def test_custom_instructions_come_first_and_are_counted_and_a_conversation_can_go_without(
    desk: Desk,
) -> None:
    desk.script.answer = words(3)
    desk.type_and_send(words(2))
    desk.answered()
    fills(desk, 5)
    desk.session.set_setup(ChatSetup(system_prompt="Be kind."))
    desk.assembly.settings.change(instructions="I am Ada.")
    fills(desk, 9)
    desk.type_and_send("Go on")
    desk.answered()
    system = desk.script.requests[-1].messages[0]
    assert (system.role, system.text) == (Role.SYSTEM, "I am Ada.\n\nBe kind.")
    desk.session.set_setup(replace(desk.session.setup, instructions=False))
    fills(desk, 12)
    desk.session.regenerate()
    desk.answered()
    assert desk.script.requests[-1].messages[0].text == "Be kind."
    assert desk.session.current is not None
    assert not unpack_setup(pack_setup(desk.session.current.setup)).instructions
    desk.session.open(None)
    assert desk.session.sent_setup.system_prompt.startswith("I am Ada.")


def test_the_meter_counts_the_conversation_and_what_is_typed(desk: Desk) -> None:
    fills(desk, 0)
    desk.chat.composer.field.setPlainText(words(30))
    fills(desk, 30)
    assert desk.chat.composer.meter.text == "30 of 8,192 tokens"
    desk.script.answer = words(12)
    desk.chat.composer.send()
    desk.answered()
    fills(desk, 42)
    desk.session.open(None)
    fills(desk, 0)


def test_little_room_is_told_and_the_bar_is_drawn_from_the_side_of_the_text(
    open_desk: OpenDesk,
) -> None:
    desk = opened(open_desk, small(context=40))
    meter = desk.chat.composer.meter
    desk.chat.composer.field.setPlainText(words(38))
    fills(desk, 38)
    assert meter.fill is not None
    assert meter.fill.percent.startswith("95")
    assert "little room" in meter.toolTip()
    left = meter.grab().toImage()
    meter.setLayoutDirection(Qt.LayoutDirection.RightToLeft)
    assert meter.grab().toImage() != left
    meter.show_fill(None)
    assert meter.text == ""


def test_a_dragged_file_may_be_dropped_into_the_field(desk: Desk, tmp_path: Path) -> None:
    files, nothing = QMimeData(), QMimeData()
    files.setUrls([QUrl.fromLocalFile(str(tmp_path / "a.txt"))])
    assert desk.chat.composer.field.canInsertFromMimeData(files)
    assert not desk.chat.composer.field.canInsertFromMimeData(nothing)


def test_typing_asks_once_per_pause(desk: Desk) -> None:
    fills(desk, 0)
    before = sum(isinstance(each, Count) for each in desk.script.commands)
    for number in range(1, 20):
        desk.chat.composer.field.setPlainText(words(number))
    fills(desk, 19)
    assert sum(isinstance(each, Count) for each in desk.script.commands) == before + 1


def test_while_an_answer_is_written_the_meter_follows_its_rounds(desk: Desk) -> None:
    desk.script.answer, desk.script.hold_after = words(9), 2
    desk.type_and_send("Go on")
    desk.streaming(words(6))
    meter = desk.chat.composer.meter
    desk.bot.waitUntil(lambda: meter.fill is not None and meter.fill.used > 6)
    desk.script.gate.set()
    desk.answered()


def test_what_is_typed_meanwhile_counts_too(desk: Desk) -> None:
    desk.script.answer, desk.script.hold_after = words(30), 2
    desk.type_and_send("Go on")
    desk.streaming(words(6))
    meter = desk.chat.composer.meter
    desk.bot.waitUntil(lambda: meter.fill is not None)
    desk.chat.composer.field.setPlainText(words(500))
    desk.bot.waitUntil(lambda: desk.chat.outgoing._ahead == 500)
    desk.script.gate.set()
    desk.bot.waitUntil(lambda: meter.fill is not None and meter.fill.used > 500)
    desk.answered()


def test_another_model_counts_anew(open_desk: OpenDesk) -> None:
    desk = opened(open_desk, small(context=100, limit=400))
    desk.chat.composer.field.setPlainText(words(30))
    fills(desk, 30)
    desk.assembly.bridge.submit(Load(Path("model"), context=200))
    desk.bot.waitUntil(lambda: desk.chat.composer.meter.text == "30 of 200 tokens")


# -- the context is full -----------------------------------------------------------------------


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
    field.setPlainText(words(14))
    assert "44 tokens" in card.text
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
