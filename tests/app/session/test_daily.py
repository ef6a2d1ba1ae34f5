"""Daily tasks: another text for an answer, copies, exports to read, folders, pictures."""

from __future__ import annotations

from pathlib import Path

import pytest
from desk import Desk

from app.chat.messages.answer_editor import AnswerEditor
from app.chat.messages.message_actions import Act
from app.conversations.archive import ExportFormat
from app.history import ChatSetup
from app.session.attached_folder import folder_files
from app.session.attachments import read_attachment
from app.shell.palette import CommandPalette
from engine.errors import UserFixable
from engine.request import Role

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support", extend=True)


def chat(desk: Desk, *questions: str) -> None:
    for question in questions:
        desk.type_and_send(question)
        desk.answered()


def test_an_answer_is_edited_as_a_new_version_and_the_model_goes_on_from_it(desk: Desk) -> None:
    chat(desk, "Hello")
    answer = desk.chat.transcript.last_answer()
    assert answer is not None
    before = answer.message.text
    answer.act(Act.REWRITE)
    editor = desk.assembly.window.findChild(AnswerEditor)
    assert editor is not None
    editor.field.setPlainText("What I would have said.")
    editor.accept()
    shown = desk.session.messages[-1]
    assert (shown.text, shown.version, shown.versions) == ("What I would have said.", 2, 2)
    desk.session.show_version(shown.id, -1)
    assert desk.session.messages[-1].text == before, "the old one stays"
    desk.session.show_version(desk.session.messages[-1].id, 1)
    chat(desk, "And then?")
    told = [each.text for each in desk.script.requests[-1].messages]
    assert told[-3:] == ["Hello", "What I would have said.", "And then?"]


def test_a_chat_goes_on_from_an_answer_in_a_copy(desk: Desk) -> None:
    chat(desk, "One", "Two")
    first, here = desk.session.current, desk.session.messages[1]
    assert first is not None
    desk.session.duplicate(here.id)
    copy = desk.session.current
    assert copy is not None
    assert copy.id != first.id
    assert [each.text for each in desk.session.messages] == ["One", here.text]
    assert copy.title.endswith("(copy)")
    desk.session.open(first)
    assert len(desk.session.messages) == 4, "the chat itself is as it was"
    desk.session.duplicate()
    assert len(desk.session.messages) == 4


def test_an_export_to_read_has_neither_prompt_nor_marks(desk: Desk, tmp_path: Path) -> None:
    desk.script.answer = "**Bold** words"
    chat(desk, "Hello")
    desk.session.set_setup(ChatSetup(system_prompt="You are a pirate."))
    current = desk.session.current
    assert current is not None
    current = desk.session.conversations.get(current.id)
    assert current is not None
    transfer = desk.assembly.window.sidebar.transfer
    for form in (ExportFormat.HTML, ExportFormat.PDF):
        place = tmp_path / f"chat.{form}"
        transfer.export_to(place, [current], form)
        desk.bot.waitUntil(place.exists)
        desk.bot.waitUntil(lambda: transfer._progress is None)
    page = (tmp_path / "chat.html").read_text()
    assert "pirate" not in page
    assert "duotail assistant" not in page
    assert "**" not in page
    assert "Bold" in page
    assert (tmp_path / "chat.pdf").read_bytes().startswith(b"%PDF")
    from app.conversations.archive import write_reading_copy

    write_reading_copy(desk.assembly.store.path, current, tmp_path / "clean.md")
    clean = (tmp_path / "clean.md").read_text()
    assert "<!--" not in clean
    assert "pirate" not in clean
    assert "**Bold** words" in clean


def test_the_text_files_of_a_folder_go_along_with_their_names(desk: Desk, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.py").write_text("print(1)\n")
    (folder / "notes.txt").write_text("hello")
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    (folder / "data.bin").write_bytes(bytes(range(256)))
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("[core]")
    desk.chat.outgoing.attach([folder])
    desk.bot.waitUntil(lambda: len(desk.chat.outgoing.attachments) == 2)
    names = [each.name for each in desk.chat.outgoing.attachments]
    assert names == ["project/notes.txt", "project/src/a.py"]
    assert all(chip.about for chip in desk.chat.composer.chips.chips)
    assert desk.session.messages == [], "nothing is sent before it was seen"


def test_a_folder_of_very_many_files_is_cut_short(tmp_path: Path) -> None:
    for number in range(80):
        (tmp_path / f"{number}.txt").touch()
    assert len(folder_files(tmp_path)) == 51


def test_a_picture_is_refused_in_true_words(tmp_path: Path) -> None:
    picture = tmp_path / "cat.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    with pytest.raises(UserFixable, match=r"is a picture, and the models .* see text only"):
        read_attachment(picture)


def test_the_commands_have_what_one_looks_for_and_say_where_there_is_nothing(desk: Desk) -> None:
    desk.assembly.window.commands.show_palette()
    palette = desk.assembly.window.findChild(CommandPalette)
    assert palette is not None

    def found(text: str) -> list[str]:
        palette.field.setText(text)
        return [each.text(0) for each in palette._items if not each.isHidden()]

    for text in ("dark", "temperature", "system prompt", "language", "export this chat", "pdf"):
        assert found(text), text
        assert palette.nothing.isHidden()
    assert found("no such thing") == []
    assert palette.nothing.isVisible()
    assert "no such thing" in palette.nothing.text()
    found("theme: dark")
    palette.list.itemClicked.emit(palette.list.currentItem(), 0)
    assert desk.assembly.settings.value.theme.value == "dark"
    assert Role.USER  # the window is still there
    palette.close()
