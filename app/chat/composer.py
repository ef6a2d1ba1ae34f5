"""Where the user writes: a field that grows, the sampling button, send and stop."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QPlainTextEdit,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.chat.writer import prose_size
from app.status import EngineStatus, Phase
from app.theme.elided import ElidedLabel
from app.theme.icons import IconButton, icon
from app.theme.theme import current

_MOST_LINES = 9
_HINT = "Enter sends, Shift+Enter makes a new line"


@dataclass(frozen=True, slots=True)
class ComposerState:
    """What the composer allows; `reason` says in words why not, or what will happen."""

    can_send: bool
    can_stop: bool
    reason: str = ""


def composer_state(status: EngineStatus, *, answering: bool, elsewhere: str = "") -> ComposerState:
    """What is possible now.

    Args:
        status: the engine's.
        answering: whether an answer is being written in any conversation.
        elsewhere: title of the other conversation it is written in, or "".
    """
    if answering and elsewhere:
        return ComposerState(False, True, f"An answer is being written in \u201c{elsewhere}\u201d")
    if answering:
        return ComposerState(False, status.phase is not Phase.STOPPING, "")
    match status.phase:
        case Phase.BROKEN:
            return ComposerState(False, False, "The engine did not start, so nothing can answer")
        case Phase.NO_MODEL:
            return ComposerState(False, False, "No model is loaded, so nothing can answer")
        case Phase.PREPARING | Phase.LOADING:
            return ComposerState(True, False, "The answer begins as soon as the model is ready")
    return ComposerState(True, False)


class _Field(QPlainTextEdit):
    """A plain text field that sends with Enter."""

    submitted = Signal()
    focused = Signal(bool)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
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

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        super().focusInEvent(event)
        self.focused.emit(True)

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        super().focusOutEvent(event)
        self.focused.emit(False)


class Composer(QFrame):
    """The card at the bottom of the chat."""

    sent = Signal(str)
    stop_asked = Signal()
    sampling_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("look", "card")
        self.field = _Field(self)
        self.field.setAccessibleName("Message")
        self.field.setPlaceholderText("Ask something")
        self.field.setTabChangesFocus(True)
        self.field.setFrameShape(QFrame.Shape.NoFrame)
        self.field.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        self.field.document().setDocumentMargin(2)
        font = self.field.font()
        font.setPointSizeF(prose_size())
        self.field.setFont(font)
        self.sampling = QToolButton(self)
        self.sampling.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.sampling.setProperty("look", "quiet")
        self.sampling.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.sampling.setCursor(Qt.CursorShape.PointingHandCursor)
        self.sampling.setIconSize(QSize(16, 16))
        self.sampling.clicked.connect(self.sampling_asked)
        self._hint = ElidedLabel(self)
        self._hint.setProperty("look", "muted")
        self._hint.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.send_button = self._round("send", "Send the message")
        self.stop_button = self._round("stop", "Stop the answer (Esc)")
        self._state = ComposerState(True, False)
        self._arrange()
        self.field.textChanged.connect(self._text_changed)
        self.field.submitted.connect(self.send)
        self.field.focused.connect(self._show_focus)
        self.send_button.clicked.connect(self.send)
        self.stop_button.clicked.connect(self.stop_asked)
        self.set_sampling(0.0, None)
        self._text_changed()

    def _round(self, icon_name: str, name: str) -> IconButton:
        button = IconButton(icon_name, name, self)
        button.setProperty("look", "round")
        button.setFixedSize(36, 36)
        return button

    def _arrange(self) -> None:
        row = QHBoxLayout()
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        row.addWidget(self.sampling)
        row.addWidget(self._hint, 1)
        row.addWidget(self.send_button)
        row.addWidget(self.stop_button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(14, 12, 10, 10)
        layout.setSpacing(6)
        layout.addWidget(self.field)
        layout.addLayout(row)

    def set_state(self, state: ComposerState) -> None:
        """Allow what is possible and say the rest in words."""
        self._state = state
        self._update_buttons()

    def set_sampling(self, temperature: float, seed: int | None) -> None:
        """Show how answers are drawn."""
        text = f"Temperature {temperature:g}"
        if temperature and seed is not None:
            text += f", seed {seed}"
        self.sampling.setText(text)
        self.sampling.setAccessibleName(f"How answers are drawn: {text}")
        self.sampling.setToolTip("How answers are drawn (Ctrl+T)")

    def set_text(self, text: str) -> None:
        """Put `text` into the field, the cursor behind it."""
        self.field.setPlainText(text)
        cursor = self.field.textCursor()
        cursor.movePosition(cursor.MoveOperation.End)
        self.field.setTextCursor(cursor)
        self.field.setFocus()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Recolour icons with the theme."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.PaletteChange and hasattr(self, "_state"):
            self._update_buttons()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """A narrower field needs more lines."""
        super().resizeEvent(event)
        self._grow()

    def send(self) -> None:
        """Send what is written, if that is possible now."""
        text = self.field.toPlainText()
        if self._state.can_send and text.strip():
            self.field.clear()
            self.sent.emit(text.strip("\n"))

    def _text_changed(self) -> None:
        self._grow()
        self._update_buttons()

    def _grow(self) -> None:
        """As high as the text, within limits."""
        lines = 0
        block = self.field.document().firstBlock()
        while block.isValid() and lines < _MOST_LINES:
            lines += max(block.layout().lineCount(), 1)
            block = block.next()
        height = self.field.fontMetrics().lineSpacing() * max(min(lines, _MOST_LINES), 1) + 8
        self.field.setFixedHeight(height)

    def _update_buttons(self) -> None:
        tokens = current()
        stopping = self._state.can_stop
        ready = self._state.can_send and bool(self.field.toPlainText().strip())
        self.send_button.setVisible(not stopping)
        self.stop_button.setVisible(stopping)
        self.send_button.setEnabled(ready)
        self.send_button.set_icon("send", "on_accent" if ready else "muted")
        self.stop_button.set_icon("stop", "on_accent")
        self.sampling.setIcon(icon("sliders", tokens.muted))
        self._hint.setText(self._state.reason or ("" if stopping else _HINT))
        why = self._state.reason if not self._state.can_send else ""
        self.send_button.setToolTip(why or "Send the message (Enter)")
        self.send_button.setAccessibleDescription(why)

    def _show_focus(self, focused: bool) -> None:
        self.setProperty("focused", "true" if focused else "false")
        self.style().unpolish(self)
        self.style().polish(self)
