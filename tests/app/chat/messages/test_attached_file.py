"""Files within a message of the user: chips that open."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from transcript_reader import Reader, message

from app.chat.messages.message_actions import Act
from app.chat.messages.user_message import UserMessage
from app.session.attachments import Attachment, with_attachments

# What a window without a screen cannot do, Qt says.
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

_CODE = "\n".join(f"value_{number} = {number}" for number in range(200))
_SENT = with_attachments([Attachment("values.py", _CODE, 1), Attachment("b.txt", "B", 1)], "Why?")


def _shown(reader: Reader, text: str = _SENT) -> UserMessage:
    reader.transcript.show_messages([message(0, text)])
    reader.settle()
    bubble = reader.transcript.bubble_at(0)
    assert isinstance(bubble, UserMessage)
    return bubble


def test_files_are_chips_that_open_with_enter(reader: Reader) -> None:
    question = _shown(reader)
    first, second = question.files
    assert question.text.toPlainText() == "Why?"
    assert question.height() < 260
    assert "values.py" in first.chip.accessibleName()
    assert "200 lines" in first.chip.accessibleName()
    first.chip.setFocus()
    reader.bot.keyClick(first.chip, Qt.Key.Key_Return)
    reader.settle()
    assert first.text is not None
    reader.bot.waitUntil(lambda: first.text is not None and first.text.laid_out)
    assert first.text.toPlainText() == _CODE
    assert question.height() > 2_000
    assert second.y() >= first.geometry().bottom()
    reader.bot.mouseClick(first.chip, Qt.MouseButton.LeftButton)
    reader.settle()
    assert question.height() < 260


def test_a_message_of_files_alone_and_what_is_copied(reader: Reader) -> None:
    sent = with_attachments([Attachment("b.txt", "B", 1)], "")
    question = _shown(reader, sent)
    assert question.text.isHidden()
    assert question.files[0].geometry().bottom() < question.height()
    question.act(Act.COPY)
    assert QGuiApplication.clipboard().text() == sent.strip()
    assert question.plain_text() == sent


def test_words_are_found_in_files_and_only_there(reader: Reader) -> None:
    question = _shown(reader)
    first, second = question.files
    first.set_opened(True)
    first.set_opened(True)  # it is
    reader.bot.waitUntil(lambda: first.text is not None and first.text.laid_out)
    reader.transcript.search("value_7")
    assert first.text is not None
    assert first.text.marks.any
    start = _SENT.index("value_77")
    reader.transcript.show_match(question.message.id, start, start + 8)
    reader.settle()
    assert first.text.marks.mark is not None
    assert second.text is None
    reader.transcript.show_match(1 << 40, 0, 4)  # another conversation's
    reader.transcript.reveal(1 << 40)
    reader.transcript.search("")
    assert not first.text.marks.any
    first.chip.setFocus()
    reader.bot.keyClick(first.chip, Qt.Key.Key_Space)
    assert not first.opened


def test_tab_goes_through_the_files_and_their_text(reader: Reader) -> None:
    question = _shown(reader)
    question.files[0].set_opened(True)
    reader.settle()
    names = [each.accessibleName().split(".")[0] for each in question.focus_chain]
    assert names[:4] == ["values", "b", "values", "Your message"]
