"""A working day: files go along, an answer is corrected, the chat goes on in a copy."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QPainter, QPdfWriter
from traveller import Traveller

from app.chat.messages.answer_editor import AnswerEditor
from app.chat.messages.message_actions import Act
from app.conversations.archive import ExportFormat, write_reading_copy
from app.session.attachments import Attachment

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def documents(folder: Path) -> list[Path]:
    """A letter as Word writes it, a page as a printer does, a folder of notes."""
    letter, page, notes = folder / "letter.docx", folder / "page.pdf", folder / "notes"
    with zipfile.ZipFile(letter, "w") as packed:
        lines = "".join(f"<w:p><w:r><w:t>Line {n} of it.</w:t></w:r></w:p>" for n in range(9))
        packed.writestr("[Content_Types].xml", "<Types/>")
        packed.writestr(
            "word/document.xml",
            f'<w:document xmlns:w="{_WORD}"><w:body>{lines}</w:body></w:document>',
        )
    writer = QPdfWriter(str(page))
    painter = QPainter(writer)
    painter.drawText(400, 400, "The cat sat on the mat.")
    painter.end()
    notes.mkdir()
    (notes / "plan.txt").write_text("The dog waits at home.\n")
    return [letter, page, notes]


def test_a_day_with_files_and_second_versions(traveller: Traveller, tmp_path: Path) -> None:
    traveller.start()
    outgoing, chips = traveller.chat.outgoing, traveller.chat.composer.chips
    outgoing.attach(documents(tmp_path))
    traveller.until(lambda: len(outgoing.attachments) == 3)
    traveller.until(lambda: all("token" in each.about for each in chips.chips))
    told = {each.file.name: each.about for each in chips.chips if isinstance(each.file, Attachment)}
    assert set(told) == {"letter.docx", "page.pdf", "notes/plan.txt"}
    # One line each, without the system prompt and what the template has around a message.
    counts = {
        name: int(about.replace(",", "").rpartition("· ")[2].split()[0])
        for name, about in told.items()
    }
    assert 4 < counts["notes/plan.txt"] < 60, told
    assert 4 < counts["page.pdf"] < 60, told
    assert 40 < counts["letter.docx"] < 300, told
    first = traveller.ask("Who waits?")
    assert first.text.raw_text

    # the panel says what was asked, not what lay beside it
    board = traveller.window.performance.board
    traveller.until(lambda: "Who waits?" in board.sight.whose.words)
    assert "cat" not in board.sight.whose.words

    first.act(Act.REWRITE)
    editor = traveller.window.findChild(AnswerEditor)
    assert editor is not None
    editor.field.setPlainText("The dog: $$\\frac{1}{2}$$ of the day.")
    editor.accept()
    traveller.until(lambda: traveller.session.messages[-1].versions == 2)
    traveller.until(lambda: "\ufffc" in traveller.answer.text.toPlainText())

    here = traveller.session.messages[-1]
    traveller.answer.act(Act.FORK)
    traveller.until(
        lambda: (now := traveller.session.current) is not None and now.title.endswith("(copy)")
    )
    assert traveller.session.messages[-1].text == here.text
    traveller.ask("And then?")
    assert len(traveller.session.messages) == 4

    current = traveller.session.current
    assert current is not None
    kept = traveller.session.conversations.get(current.id)
    assert kept is not None
    write_reading_copy(traveller.assembly.store.path, kept, tmp_path / "read.md")
    copy = (tmp_path / "read.md").read_text()
    assert "$$\\frac{1}{2}$$" in copy
    assert "And then?" in copy


def test_a_day_with_a_long_file_exports_and_a_model_to_start_with(
    traveller: Traveller, tmp_path: Path
) -> None:
    traveller.start()
    chat, transfer = traveller.chat, traveller.window.sidebar.transfer
    outgoing, field = chat.outgoing, chat.composer.field
    plan = traveller.assembly.bridge.status.plan
    assert plan is not None
    long = tmp_path / "long.txt"
    lines = ["The river runs past the old stone bridge."] * (plan.context // 4)
    long.write_text("\n\n".join([*lines, "The heron lives in the mill.", *lines]))
    outgoing.attach([long])
    traveller.until(lambda: len(outgoing.attachments) == 1)
    field.setFocus()
    traveller.bot.keyClicks(field, "Where does the heron live?")
    meter = chat.composer.meter
    traveller.until(lambda: meter.fill is not None and not meter.fill.fits)
    traveller.until(lambda: outgoing._fill_is_current)
    traveller.bot.keyClick(field, Qt.Key.Key_Return)
    card = chat.context_card
    traveller.until(card.isVisible)
    traveller.bot.keyClicks(field, " Please")
    assert field.toPlainText() == "Where does the heron live? Please"
    card.parts_button.click()
    traveller.until(lambda: bool(outgoing.attachments[0].taken))
    assert "heron lives in the mill" in outgoing.attachments[0].text
    traveller.until(lambda: not card.isVisible())
    traveller.bot.keyClick(field, Qt.Key.Key_Return)
    traveller.until(lambda: len(traveller.session.messages) == 2)
    traveller.answered()

    current = traveller.session.current
    assert current is not None
    for form in (ExportFormat.HTML, ExportFormat.PDF):
        path = tmp_path / f"chat.{form}"
        transfer.export_to(path, [current], form)
        traveller.until(path.exists)
        traveller.until(
            lambda name=path.name: any(name in each for each in traveller.banners.texts)
        )
    assert "heron" in (tmp_path / "chat.html").read_text()
    assert (tmp_path / "chat.pdf").read_bytes().startswith(b"%PDF")

    menu = traveller.window.model_button.make_menu()
    (start,) = (each for each in menu.actions() if each.text().startswith("Always start"))
    start.trigger()
    assert traveller.assembly.models.starts_with == traveller.assembly.bridge.status.model


def test_drafts_are_chosen_by_name(traveller: Traveller) -> None:
    traveller.start()
    button = traveller.window.run_button
    button.click()
    panel = button.panel
    traveller.until(panel.isVisible)
    traveller.until(lambda: any(isinstance(each, Path) for each in panel.drafts.rows))
    for path in (each for each in panel.drafts.rows if isinstance(each, Path)):
        name = panel.drafts.rows[path].button.accessibleName()
        assert name
        assert "/" not in name
        assert not name.endswith(".gguf")
    corner = panel.mapTo(panel, panel.rect().bottomRight())
    window = traveller.window
    inside = window.mapFromGlobal(panel.mapToGlobal(corner))
    assert window.rect().contains(inside), "a popup stays within its window"
    panel.hide()
