"""The field a message is written in. Files and long texts do not go into it: they are handed on."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QEvent, QMimeData, QRegularExpression, Qt, Signal
from PySide6.QtGui import QFocusEvent, QFont, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QWidget

from app.chat.text.styles import prose_size
from app.settings.prompts import PLACEHOLDER
from app.signals import TypedSignal
from app.theme.fonts import keep_font
from app.theme.theme import ui_font

LONG_PASTE = 2_000
"""Characters from which a pasted text goes along beside the message."""
LONG_PASTE_LINES = 40
"""Lines from which it does."""
_MOST_IN_FIELD = 30_000
"""Beyond, typing into one long paragraph would be felt."""
_MOST_LINES = 9
_FEWEST_LINES = 2


class MessageField(QPlainTextEdit):
    """A plain text field that grows with its text and sends with Enter."""

    submitted = Signal()
    focused = Signal(bool)
    files_given = TypedSignal[list[Path]]()
    """Paths of files that were pasted or dropped."""
    long_text_given = Signal(str)
    """A pasted text that is too long to be edited here."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._most_lines = _MOST_LINES
        self._filling = False
        """True while places of a prompt may have to be filled in."""
        self.setTabChangesFocus(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.document().setDocumentMargin(2)
        keep_font(self, _prose)
        self.textChanged.connect(self.grow)

    @property
    def has_words(self) -> bool:
        """True if anything but blanks is written."""
        block = self.document().firstBlock()
        while block.isValid():
            if block.text().strip():
                return True
            block = block.next()
        return False

    def set_most_height(self, pixels: int) -> None:
        """Limit the height, so that there is room for what is above and below."""
        lines = pixels // self.fontMetrics().lineSpacing()
        self._most_lines = max(_FEWEST_LINES, min(lines, _MOST_LINES))
        self.grow()

    def grow(self) -> None:
        """Take the height of the text, within limits."""
        lines = 0
        block = self.document().firstBlock()
        while block.isValid() and lines < self._most_lines:
            lines += max(block.layout().lineCount(), 1)
            block = block.next()
        height = self.fontMetrics().lineSpacing() * max(min(lines, self._most_lines), 1) + 8
        self.setFixedHeight(height)

    def set_text(self, text: str) -> None:
        """Put `text` into the field, the cursor behind it."""
        self._filling = False
        self.setPlainText(text)
        cursor = self.textCursor()
        cursor.movePosition(cursor.MoveOperation.End)
        self.setTextCursor(cursor)

    def take_prompt(self, text: str) -> None:
        """Put a saved prompt in place of what is written, its first placeholder selected."""
        cursor = self.textCursor()
        cursor.select(cursor.SelectionType.Document)
        cursor.insertText(text)  # can be undone
        cursor.setPosition(0)
        self.setTextCursor(cursor)
        self._filling = True
        if not self._next_placeholder():
            self.moveCursor(cursor.MoveOperation.End)
        self.setFocus()

    def _next_placeholder(self) -> bool:
        """Select the next place to fill in; False behind the last one."""
        found = self.document().find(QRegularExpression(PLACEHOLDER), self.textCursor())
        self._filling = not found.isNull()
        if self._filling:
            self.setTextCursor(found)
        return self._filling

    def focusNextPrevChild(self, forward: bool) -> bool:  # noqa: N802
        """Tab goes to the next place to fill in, as long as a prompt has any."""
        if forward and self._filling and self._next_placeholder():
            return True
        return super().focusNextPrevChild(forward)

    def has_room(self, text: str) -> bool:
        """Return whether a text may be put into the field."""
        return len(text) <= _MOST_IN_FIELD - self.document().characterCount()

    def canInsertFromMimeData(self, source: QMimeData) -> bool:  # noqa: N802
        """Files are welcome too."""
        return bool(local_files(source)) or super().canInsertFromMimeData(source)

    def insertFromMimeData(self, source: QMimeData) -> None:  # noqa: N802
        """Take in what is pasted or dropped; what is too long for the field is handed on."""
        files = local_files(source)
        if files:
            self.files_given.emit(files)
            return
        text = source.text()
        long = len(text) > LONG_PASTE or text.count("\n") >= LONG_PASTE_LINES
        if long or not self.has_room(text):
            self.textCursor().removeSelectedText()
            self.long_text_given.emit(text)
        elif text:
            self.insertPlainText(text)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Enter sends, Shift+Enter makes a line."""
        enter = event.key() in {Qt.Key.Key_Return, Qt.Key.Key_Enter}
        with_shift = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        if enter and not with_shift:
            self.submitted.emit()
        else:
            super().keyPressEvent(event)

    def event(self, event: QEvent) -> bool:
        """Leave Ctrl+K to the window: Qt would delete to the end of the line with it."""
        if event.type() is QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent):
            control = event.modifiers() == Qt.KeyboardModifier.ControlModifier
            if control and event.key() == Qt.Key.Key_K:
                event.ignore()
                return False
        return super().event(event)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Larger letters need more room."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.FontChange:
            self.grow()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Grow, as a narrower field needs more lines."""
        super().resizeEvent(event)
        self.grow()

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        """Tell the frame around it."""
        super().focusInEvent(event)
        self.focused.emit(True)

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        """Tell the frame around it."""
        super().focusOutEvent(event)
        self.focused.emit(False)


def _prose() -> QFont:
    font = ui_font()
    font.setPointSizeF(prose_size())
    return font


def local_files(source: QMimeData) -> list[Path]:
    """The files on this machine that a drop or the clipboard holds."""
    return [Path(url.toLocalFile()) for url in source.urls() if url.isLocalFile()]
