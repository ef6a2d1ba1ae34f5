"""A question: what the user said, in a bubble, to be changed in its place."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from PySide6.QtGui import QFontMetricsF
from PySide6.QtWidgets import QFrame, QWidget

from app.chat.messages.attached_file import AttachedFile
from app.chat.messages.message_actions import Act, MessageRequests
from app.chat.messages.message_editor import MessageEditor
from app.chat.messages.message_footer import FooterState, footer_height
from app.chat.messages.message_row import BELOW, GAP, MessageRow
from app.chat.text.source_map import utf16_length
from app.history import StoredMessage
from app.session.attachments import sent_files
from app.theme.tokens import COLUMN
from engine.language import tr

BUBBLE_SIDE, BUBBLE_EDGE = 16, 10
"""Space between a bubble's border and its text."""
_APART = 8
"""Space between the files, and below them."""
_SHARE = 0.82
"""A bubble is at most so much of the column wide."""


class UserMessage(MessageRow):
    """A message of the user, as typed, below the files that went along with it."""

    def __init__(self, message: StoredMessage, requests: MessageRequests, parent: QWidget) -> None:
        super().__init__(message, requests, tr("Your message"), parent)
        files, said = sent_files(message.text)
        self.files = [
            AttachedFile(file, utf16_length(message.text[: file.start]), self._bubble)
            for file in files
        ]
        for file in self.files:
            file.resized.connect(self.grown)
        self._said = message.text[said:]
        start = utf16_length(message.text[:said])
        self.text.prepare(self._said, start=start, markdown=False)
        self.text.setVisible(not self.files or bool(self._said.strip()))
        self._natural, self._natural_size = 0, 0.0
        self.editor: MessageEditor | None = None
        self.update_parts()

    def text_parent(self) -> QWidget:
        """The bubble."""
        self._bubble = QFrame(self)
        self._bubble.setProperty("look", "bubble")
        return self._bubble

    @property
    def busy(self) -> bool:
        """Return True also for a message that is being changed."""
        return self.editor is not None or super().busy

    @property
    def focus_chain(self) -> list[QWidget]:
        """The files come first; the editor takes the place of everything."""
        if self.editor is not None:
            return self.editor.stops
        texts = [text for file in self.files if file.opened and (text := file.text) is not None]
        return [*(file.chip for file in self.files), *texts, *super().focus_chain]

    def arrange(self, width: int) -> int:
        """The bubble is as wide as its text, at most most of the column."""
        if self.editor is not None:
            height = self.editor.arrange(width)
            self.editor.setGeometry(0, 0, width, height)
            return self.above_divider(width, height + GAP)
        inner = max(40, min(self._natural_width(), int(width * _SHARE) - 2 * BUBBLE_SIDE))
        y = BUBBLE_EDGE
        for file in self.files:
            file.resize(inner, file.height())
            file.move(BUBBLE_SIDE, y)
            y += file.height() + _APART
        if self.text.isHidden():
            y -= _APART
        else:
            self.text.resize(inner, self.text.height())
            self.text.move(BUBBLE_SIDE, y)
            y += self.text.height()
        outer = inner + 2 * BUBBLE_SIDE
        left = 0 if self.isRightToLeft() else width - outer
        height = y + BUBBLE_EDGE
        self._bubble.setGeometry(left, 0, outer, height)
        self.footer.setGeometry(0, height + BELOW, width, footer_height())
        return self.above_divider(width, height + BELOW + footer_height())

    def update_parts(self) -> None:
        """Versions and actions of a question."""
        message = self.message
        self.footer.set_state(
            FooterState(
                version=message.version,
                versions=message.versions,
                acts=(Act.COPY, Act.EDIT, Act.MORE),
                buttons=((Act.ANSWER, tr("Answer")),) if self._is_last else (),
            )
        )
        super().update_parts()

    def groups(self) -> Sequence[Sequence[Act]]:
        """The actions of the menu."""
        answer = [Act.ANSWER] if self._is_last else []
        return (Act.COPY, Act.PLAIN), (*answer, Act.EDIT, *self.versions()), (Act.DELETE,)

    def act(self, act: Act) -> None:
        """Do an action of a question: edit it, or what every message has."""
        if act is Act.EDIT:
            self.edit()
        else:
            super().act(act)

    def highlight(self, words: Sequence[str]) -> None:
        """Mark words in what was said and in the files."""
        super().highlight(words)
        for file in self.files:
            file.highlight(words)

    def unfolded_y(self, start: int, end: int) -> int | None:
        """Mark a stretch, and open the file that holds it."""
        file = next((each for each in self.files if each.holds(start)), None)
        if file is None:
            return super().unfolded_y(start, end)
        rect = file.unfolded_rect(start, end)
        return None if rect is None else file.mapTo(self, rect.topLeft().toPoint()).y()

    def clear_mark(self) -> None:
        """Take the mark away, also in the files."""
        super().clear_mark()
        for file in self.files:
            file.clear_mark()

    def plain_text(self) -> str:
        """Return the message: it is plain text."""
        return self.message.text

    def edit(self) -> None:
        """Put a field with the text in the place of the bubble."""
        if self.editor is not None:
            return
        self.editor = MessageEditor(self.message.text, self)
        self.editor.sent.connect(self._send_edited)
        self.editor.cancelled.connect(self._end_edit)
        self.editor.grown.connect(self.grown)
        self._bubble.hide()
        self.footer.hide()
        self.editor.show()
        self.grown.emit()
        self.editor.field.setFocus()

    def _send_edited(self, text: str) -> None:
        self._end_edit()
        self.requests.edit.emit(self.message.id, text)

    def _end_edit(self) -> None:
        if self.editor is None:
            return
        editor, self.editor = self.editor, None
        self._bubble.show()
        self.footer.show()
        self.text.setFocus()
        editor.hide()
        editor.deleteLater()
        self.grown.emit()

    def _natural_width(self) -> int:
        if any(file.opened for file in self.files):
            return COLUMN
        return max([self._text_width(), *(file.natural_width for file in self.files)])

    def _text_width(self) -> int:
        font = self.text.document().defaultFont()
        if self._natural_size != font.pointSizeF():
            self._natural_size = font.pointSizeF()
            metrics = QFontMetricsF(font)
            lines = self._said[:4_000].split("\n")
            self._natural = ceil(max(metrics.horizontalAdvance(line[:400]) for line in lines)) + 1
        return self._natural
