"""Files that go along with a message: attached, dropped, pasted, taken away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest
from composing import attach, paste, tabbed_back, words
from desk import PATIENCE_MS, Desk
from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtWidgets import QApplication, QFileDialog

from app.chat.composer.message_field import LONG_PASTE
from app.history import ChatSetup
from app.session.attachments import Attachment, sent_files
from engine.errors import Cancelled, UserFixable


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


def test_the_buttons_of_files_are_before_the_field_where_tab_goes(
    desk: Desk, tmp_path: Path
) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("hello")
        attach(desk, tmp_path / name)
    names = ["Remove “b.txt”", "Remove “a.txt”"]
    assert tabbed_back(desk, 2) == names
    focus = QApplication.focusWidget()
    assert focus is not None
    desk.bot.keyClick(focus, Qt.Key.Key_Return)
    assert [each.name for each in desk.chat.outgoing.attachments] == ["b.txt"]
    assert desk.chat.composer.field.hasFocus()


def test_a_folder_goes_along_and_what_is_left_out_of_it_is_said(desk: Desk, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.py").write_text("print(1)\n")
    (folder / "b.bin").write_bytes(b"\0\1\2\3" * 64)
    attach(desk, folder)
    assert [each.name for each in desk.chat.outgoing.attachments] == ["project/a.py"]
    (told,) = desk.assembly.window.banners.texts
    assert told.startswith("“project”: 1 file was left out")


def test_the_newest_of_many_chips_is_in_sight(desk: Desk, tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"a long name of a file {number}.txt").write_text("text")
        attach(desk, tmp_path / f"a long name of a file {number}.txt")
    chips = desk.chat.composer.chips
    assert chips.verticalScrollBar().maximum() > 0
    desk.bot.waitUntil(lambda: not chips.chips[-1].visibleRegion().isEmpty())


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


def test_a_file_is_counted_without_the_prompt_that_comes_before_it(
    desk: Desk, tmp_path: Path
) -> None:
    desk.session.set_setup(ChatSetup(system_prompt=words(100)))
    (tmp_path / "a.txt").write_text("alpha beta\n")
    attach(desk, tmp_path / "a.txt")
    (chip,) = desk.chat.composer.chips.chips
    desk.bot.waitUntil(lambda: "token" in chip.about)
    assert chip.about.endswith(" · 1 line · 2 tokens")


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
        assert gate.wait(PATIENCE_MS / 1000)
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
    assert button.text() == "Western European (Windows-1252) ▾"
    assert any("“alt.txt” does not state" in each for each in desk.assembly.window.banners.texts)
    menu = button.menu()
    (cyrillic,) = (each for each in menu.actions() if each.text() == "Cyrillic (Windows-1251)")
    cyrillic.trigger()
    desk.bot.waitUntil(lambda: desk.chat.outgoing.attachments[0].encoding == "cp1251")
    assert desk.chat.outgoing.attachments[0].text == "Grüße".encode("cp1252").decode("cp1251")
    assert not any("alt.txt" in text for text in desk.banners.texts)  # it named the other one
    assert [each.name for each in desk.chat.outgoing.attachments] == ["alt.txt", "new.txt"]
    assert desk.assembly.window.banners.texts == []  # what it says is no longer so


@pytest.mark.qt_log_ignore("This plugin does not support")
def test_files_are_chosen_in_a_dialog(desk: Desk, tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(name)
    desk.chat.outgoing.ask_for_files()
    (dialog,) = desk.assembly.window.findChildren(QFileDialog)
    dialog.filesSelected.emit([str(tmp_path / "a.txt"), str(tmp_path / "b.txt")])
    desk.bot.waitUntil(lambda: len(desk.chat.outgoing.attachments) == 2)
    assert dialog.nameFilters() == ["All files (*)"]
    dialog.reject()


def test_a_file_belongs_to_the_conversation_it_was_given_in(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it is read only after the user has gone on to another one."""
    gate = Event()

    def read(path: Path, stopped: Callable[[], bool] = lambda: False) -> Attachment:
        assert gate.wait(PATIENCE_MS / 1000)
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
    desk.bot.waitUntil(lambda: not desk.chat.outgoing._reading)
    assert desk.banners.texts == ["“bad.pdf” is damaged."]
    assert desk.chat.outgoing.attachments == []
    desk.session.open(first)
    assert [each.name for each in desk.chat.outgoing.attachments] == ["good.pdf"]
    assert "Only the beginning was read." in desk.banners.texts
    desk.session.open(None)
    assert desk.banners.texts == ["“bad.pdf” is damaged."]
    desk.session.open(first)
    assert desk.banners.texts == ["“bad.pdf” is damaged."]  # it was said once
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
