"""Changing a message in its place."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QKeyEvent, QTextCursor
from PySide6.QtWidgets import QFrame, QLabel, QPlainTextEdit, QPushButton, QWidget

from app.chat.text.styles import prose_size
from app.widgets.boxes import hbox
from engine.language import tr

_EDGE = 10
_BUTTONS = 36
_HIGHEST = 360


class _Field(QPlainTextEdit):
    """Enter sends, Shift+Enter makes a line, Esc gives up."""

    submitted = Signal()
    cancelled = Signal()

    def event(self, event: QEvent) -> bool:
        """Esc is for the editor here, whatever else it does in the window."""
        if event.type() is QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent):
            enter = event.key() in {Qt.Key.Key_Return, Qt.Key.Key_Enter}
            if event.key() == Qt.Key.Key_Escape or enter:
                event.accept()
                return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        enter = event.key() in {Qt.Key.Key_Return, Qt.Key.Key_Enter}
        if event.key() == Qt.Key.Key_Escape:
            self.cancelled.emit()
        elif enter and not event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self.submitted.emit()
        else:
            super().keyPressEvent(event)


class MessageEditor(QFrame):
    """A field with the message's text, as high as it needs, and two buttons."""

    sent = Signal(str)
    cancelled = Signal()
    grown = Signal()

    def __init__(self, text: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.setProperty("look", "card")
        self.field = _Field(self)
        self.field.setAccessibleName(tr("Edit your message"))
        self.field.setFrameShape(QFrame.Shape.NoFrame)
        self.field.setTabChangesFocus(True)
        font = self.field.font()
        font.setPointSizeF(prose_size())
        self.field.setFont(font)
        self.field.setPlainText(text)
        self.field.moveCursor(QTextCursor.MoveOperation.End)
        self._hint = QLabel(tr("Generates a new answer; the earlier version is kept."))
        self._hint.setProperty("look", "muted")
        self._hint.setWordWrap(True)
        self._cancel = QPushButton(tr("Cancel"), self)
        self.send_button = QPushButton(tr("Send"), self)
        self.send_button.setProperty("look", "primary")
        line = hbox((self._hint, 1), self._cancel, self.send_button, margins=0)
        self._line = QWidget(self)
        self._line.setLayout(line)
        self.field.submitted.connect(self._send)
        self.field.cancelled.connect(self.cancelled)
        self.field.textChanged.connect(self._changed)
        self._cancel.clicked.connect(self.cancelled)
        self.send_button.clicked.connect(self._send)

    @property
    def stops(self) -> list[QWidget]:
        """Return the widgets that Tab goes through."""
        return [self.field, self._cancel, self.send_button]

    def arrange(self, width: int) -> int:
        """Place field and buttons; the height they need."""
        inner = width - 2 * _EDGE
        self.field.resize(inner, self.field.height())
        line = self.field.fontMetrics().lineSpacing()
        lines = int(self.field.document().size().height())  # a plain text's size is in lines
        height = min(lines * line + 12, _HIGHEST)
        self.field.setGeometry(_EDGE, _EDGE, inner, height)
        below = max(self._line.heightForWidth(inner), _BUTTONS)
        self._line.setGeometry(_EDGE, height + 2 * _EDGE, inner, below)
        return height + below + 3 * _EDGE

    def _send(self) -> None:
        text = self.field.toPlainText()
        if text.strip():
            self.sent.emit(text)

    def _changed(self) -> None:
        self.send_button.setEnabled(bool(self.field.toPlainText().strip()))
        self.grown.emit()
