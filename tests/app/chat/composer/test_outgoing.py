"""What is about to be sent: drafts and the meter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from composing import OpenDesk, attach, fills, opened, small, words
from desk import Desk
from fake_engine import Script
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent

from app.history import ChatSetup
from app.history.columns import pack_setup, unpack_setup
from engine.commands import Count, Load
from engine.request import Role

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
