"""How one message looks: the user's in a bubble, answers over the whole column."""

from __future__ import annotations

from math import ceil

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QFontMetricsF, QGuiApplication
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QToolButton, QVBoxLayout, QWidget

from app.chat.text_view import TextView
from app.chat.words import answer_details, answer_note, answer_stats
from app.history import AnswerState, StoredMessage
from app.theme.icons import IconButton

_FRAME_MS = 33
_SLOWEST_FRAME_MS = 250
_DUTY = 6
"""Rendering may take one part in so many of the time."""


class UserMessage(QWidget):
    """What the user said, as typed."""

    def __init__(self, message: StoredMessage, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.message = message
        self.setAccessibleName("Your message")
        bubble = QFrame(self)
        bubble.setProperty("look", "bubble")
        inner = QHBoxLayout(bubble)
        inner.setContentsMargins(16, 10, 16, 10)
        self.text = TextView("Your message", bubble)
        self.text.show_plain(message.text)
        inner.addWidget(self.text)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addStretch(1)
        layout.addWidget(bubble, 0)
        self._natural = -1

    @property
    def focus_chain(self) -> list[QWidget]:
        """What Tab goes through, in order."""
        return [self.text]

    def fit(self, width: int) -> None:
        """Make the bubble as wide as its text, at most most of the column."""
        if self._natural < 0:
            metrics = QFontMetricsF(self.text.document().defaultFont())
            lines = self.message.text[:4_000].split("\n")
            self._natural = ceil(max(metrics.horizontalAdvance(line[:400]) for line in lines)) + 1
        self.text.setFixedWidth(max(40, min(self._natural, int(width * 0.82) - 32)))


class AnswerMessage(QWidget):
    """An answer: its text, how it ended, its numbers, and what can be done with it."""

    continue_asked = Signal()
    regenerate_asked = Signal()

    def __init__(self, message: StoredMessage, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.message = message
        self._pending: list[str] = []
        self._live = False
        self.text = TextView("Answer", self)
        self._waiting = QLabel("\u2026", self)
        self._waiting.setProperty("look", "muted")
        self._note = QLabel(self)
        self._note.setProperty("look", "muted")
        self._note.setWordWrap(True)
        self._stats = QLabel(self)
        self._stats.setProperty("look", "muted")
        self._stats.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self._stats.setAccessibleName("Statistics of this answer")
        self._copy = IconButton("copy", "Copy answer", self)
        self._copy.clicked.connect(self.copy)
        self._again = IconButton("refresh", "Write this answer anew", self, shortcut="Ctrl+R")
        self._again.clicked.connect(self.regenerate_asked)
        self._go_on = QToolButton(self)
        self._go_on.setText("Continue")
        self._go_on.setToolTip("Go on where this answer stopped (Ctrl+Return)")
        self._go_on.setAccessibleName("Continue this answer")
        self._go_on.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._go_on.clicked.connect(self.continue_asked)
        self._arrange()
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._flush)
        if message.text:
            self.text.show_markdown(message.text)
        self.set_last(last=False)

    def _arrange(self) -> None:
        footer = QHBoxLayout()
        footer.setContentsMargins(0, 0, 0, 0)
        footer.setSpacing(2)
        footer.addWidget(self._stats)
        footer.addStretch(1)
        footer.addWidget(self._go_on)
        footer.addWidget(self._copy)
        footer.addWidget(self._again)
        self._footer = QWidget(self)
        self._footer.setLayout(footer)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        layout.addWidget(self._waiting)
        layout.addWidget(self.text)
        layout.addWidget(self._note)
        layout.addWidget(self._footer)

    @property
    def focus_chain(self) -> list[QWidget]:
        """What Tab goes through, in order; copy buttons of code follow the text."""
        return [self.text, self._stats, self._go_on, self._copy, self._again]

    @property
    def note(self) -> str:
        """How it ended, in words; empty when it simply ended."""
        return self._note.text()

    def begin(self) -> None:
        """Text is about to come."""
        self._live = True
        if self.message.text:  # a continued answer goes on in its last paragraph
            self.text.reopen(self.message.text)
        self._update_parts(last=True)

    def say(self, words: str) -> None:
        """Say what is going on before the first words come."""
        self._waiting.setText(f"{words}\u2026")

    def append(self, text: str) -> None:
        """More text has come; it is rendered with the next frame."""
        self._pending.append(text)
        self._waiting.setVisible(False)
        if not self._timer.isActive():
            self._timer.start(self._next_frame())

    def finish(self, message: StoredMessage) -> None:
        """The answer is over; `message` is what was stored."""
        self._flush()
        self._timer.stop()
        self._live = False
        self.message = message
        if self.text.raw_text == message.text:
            self.text.finish()
        else:
            self.text.show_markdown(message.text)
        self._update_parts(last=True)

    def set_last(self, *, last: bool) -> None:
        """Only the last answer can be written anew or continued."""
        self._update_parts(last=last)

    def fit(self, width: int) -> None:
        """Answers take the whole column."""

    def copy(self) -> None:
        """Copy the answer as markdown."""
        QGuiApplication.clipboard().setText(self.text.raw_text)
        self._copy.set_icon("check", "success")
        QTimer.singleShot(1500, self._copy, lambda: self._copy.set_icon("copy"))

    def _next_frame(self) -> int:
        """Slow rendering (a long paragraph or table still open) is done less often."""
        wanted = int(self.text.last_render_s * 1000 * _DUTY)
        return min(max(_FRAME_MS, wanted), _SLOWEST_FRAME_MS)

    def _flush(self) -> None:
        if self._pending:
            text = "".join(self._pending)
            self._pending.clear()
            self.text.append(text)

    def _update_parts(self, *, last: bool) -> None:
        message, live = self.message, self._live
        self._waiting.setVisible(live and not self.text.raw_text)
        self.text.setVisible(bool(self.text.raw_text) or live)
        note = "" if live else answer_note(message)
        self._note.setText(note)
        self._note.setVisible(bool(note))
        self._note.setProperty("look", "danger" if message.state is AnswerState.FAILED else "muted")
        self._note.style().polish(self._note)
        self._stats.setText("" if live or message.stats is None else answer_stats(message.stats))
        self._stats.setToolTip(answer_details(message) if message.stats else "")
        self._footer.setVisible(not live)
        self._copy.setVisible(bool(message.text))
        self._again.setVisible(last)
        ended = message.state in (AnswerState.COMPLETE, AnswerState.FULL)
        self._go_on.setVisible(last and not ended)
        self._go_on.setText("Continue" if message.text else "Try again")


Bubble = UserMessage | AnswerMessage
