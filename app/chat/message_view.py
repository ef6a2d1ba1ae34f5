"""How one message looks: the user's in a bubble, answers over the whole column."""

from __future__ import annotations

from math import ceil

from PySide6.QtCore import QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QFontMetricsF, QGuiApplication, QTextCursor
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QToolButton, QWidget

from app.chat.column import Mark, Row
from app.chat.text_feed import TextFeed
from app.chat.text_view import TextView
from app.chat.words import answer_details, answer_note, answer_stats
from app.history import AnswerState, StoredMessage
from app.theme.icons import IconButton

BUBBLE_SIDE, BUBBLE_EDGE = 16, 10
"""Space between a bubble's border and its text."""
FOOTER = 32
GAP = 24
"""Space below a message."""
_SHARE = 0.82
"""A bubble is at most so much of the column wide."""
_FRAME_MS = 33
_SLOWEST_FRAME_MS = 250
_DUTY = 6
"""Rendering may take one part in so many of the time."""


class MessageRow(Row):
    """A message in the column: a text and what belongs to it."""

    def __init__(self, message: StoredMessage, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.message = message
        self.text: TextView
        self._feed: TextFeed | None = None

    @property
    def busy(self) -> bool:
        """Rows that are selected in or have the focus stay."""
        return self.text.textCursor().hasSelection() or self.isAncestorOf(
            QGuiApplication.focusObject()  # type: ignore[arg-type]
        )

    def load(self, until: float) -> bool:
        """Lay out more of the text."""
        return self._feed is None or self._feed.more(until)

    def mark_at(self, y: int) -> Mark | None:
        """The line of text at the height `y`."""
        cursor = self.text.cursorForPosition(QPoint(0, y - self._text_top()))
        mark = Mark(cursor.position(), 0)
        return Mark(mark.position, y - self.mark_y(mark))

    def mark_y(self, mark: Mark) -> int:
        """Where the line with the marked character is now."""
        cursor = QTextCursor(self.text.document())
        cursor.setPosition(min(mark.position, self.text.document().characterCount() - 1))
        return self._text_top() + self.text.cursorRect(cursor).top()

    def _text_top(self) -> int:
        return self.text.mapTo(self, QPoint(0, 0)).y()


class UserMessage(MessageRow):
    """What the user said, as typed."""

    def __init__(self, message: StoredMessage, parent: QWidget | None = None) -> None:
        super().__init__(message, parent)
        self.setAccessibleName("Your message")
        self._bubble = QFrame(self)
        self._bubble.setProperty("look", "bubble")
        self.text = TextView("Your message", self._bubble)
        self.text.move(BUBBLE_SIDE, BUBBLE_EDGE)
        self._feed = TextFeed(self.text, message.text, markdown=False)
        self._natural = -1

    @property
    def focus_chain(self) -> list[QWidget]:
        """What Tab goes through, in order."""
        return [self.text]

    def arrange(self, width: int) -> int:
        """The bubble is as wide as its text, at most most of the column."""
        if self._natural < 0:
            metrics = QFontMetricsF(self.text.document().defaultFont())
            lines = self.message.text[:4_000].split("\n")
            self._natural = ceil(max(metrics.horizontalAdvance(line[:400]) for line in lines)) + 1
        inner = max(40, min(self._natural, int(width * _SHARE) - 2 * BUBBLE_SIDE))
        self.text.resize(inner, self.text.height())
        outer = inner + 2 * BUBBLE_SIDE
        left = 0 if self.isRightToLeft() else width - outer
        height = self.text.height() + 2 * BUBBLE_EDGE
        self._bubble.setGeometry(left, 0, outer, height)
        return height + GAP


class AnswerMessage(MessageRow):
    """An answer: its text, how it ended, its numbers, and what can be done with it."""

    continue_asked = Signal()
    regenerate_asked = Signal()

    def __init__(self, message: StoredMessage, parent: QWidget | None = None) -> None:
        super().__init__(message, parent)
        self._pending: list[str] = []
        self._live = False
        self._last = False
        self.text = TextView("Answer", self)
        self._waiting = QLabel("\u2026", self)
        self._waiting.setProperty("look", "muted")
        self._note = QLabel(self)
        self._note.setProperty("look", "muted")
        self._note.setWordWrap(True)
        self._footer = QWidget(self)
        self._stats = QLabel(self._footer)
        self._stats.setProperty("look", "muted")
        self._stats.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self._stats.setAccessibleName("Statistics of this answer")
        self._copy = IconButton("copy", "Copy answer", self._footer)
        self._copy.clicked.connect(self.copy)
        self._again = IconButton(
            "refresh", "Write this answer anew", self._footer, shortcut="Ctrl+R"
        )
        self._again.clicked.connect(self.regenerate_asked)
        self._go_on = QToolButton(self._footer)
        self._go_on.setText("Continue")
        self._go_on.setToolTip("Go on where this answer stopped (Ctrl+Return)")
        self._go_on.setAccessibleName("Continue this answer")
        self._go_on.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._go_on.clicked.connect(self.continue_asked)
        footer = QHBoxLayout(self._footer)
        footer.setContentsMargins(0, 0, 0, 0)
        footer.setSpacing(2)
        footer.addWidget(self._stats)
        footer.addStretch(1)
        footer.addWidget(self._go_on)
        footer.addWidget(self._copy)
        footer.addWidget(self._again)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._flush)
        self._feed = TextFeed(self.text, message.text, markdown=True) if message.text else None
        self._update_parts()

    @property
    def focus_chain(self) -> list[QWidget]:
        """What Tab goes through, in order; copy buttons of code follow the text."""
        return [self.text, self._stats, self._go_on, self._copy, self._again]

    @property
    def busy(self) -> bool:
        """An answer that is being written stays too."""
        return self._live or super().busy

    @property
    def note(self) -> str:
        """How it ended, in words; empty when it simply ended."""
        return self._note.text()

    def arrange(self, width: int) -> int:
        """Text, note and footer below each other."""
        y = 0
        for part in (self._waiting, self.text, self._note, self._footer):
            if part.isHidden():
                continue
            y += 8 if y else 0
            if part is self.text:
                part.setGeometry(0, y, width, part.height())
            elif part is self._footer:
                part.setGeometry(0, y, width, FOOTER)
            else:
                part.setGeometry(0, y, width, max(part.heightForWidth(width), 20))
            y += part.height()
        return y + GAP

    def begin(self) -> None:
        """Text is about to come."""
        self._live = True
        self._feed = None
        if self.message.text:  # a continued answer goes on in its last paragraph
            self.text.reopen(self.message.text)
        self._update_parts()

    def say(self, words: str) -> None:
        """Say what is going on before the first words come."""
        self._waiting.setText(f"{words}\u2026")

    def append(self, text: str) -> None:
        """More text has come; it is rendered with the next frame."""
        self._pending.append(text)
        if not self._waiting.isHidden():
            self._waiting.setVisible(False)
            self.grown.emit()
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
        self._update_parts()

    def set_last(self, *, last: bool) -> None:
        """Only the last answer can be written anew or continued."""
        if last is not self._last:
            self._last = last
            self._update_parts()

    def copy(self) -> None:
        """Copy the answer as markdown."""
        text = self.text.raw_text if self._live else self.message.text
        QGuiApplication.clipboard().setText(text)
        self._copy.set_icon("check", "success")
        QTimer.singleShot(1500, self._copy, lambda: self._copy.set_icon("copy"))

    def _next_frame(self) -> int:
        """Slow rendering (a long paragraph or table still open) is done less often."""
        wanted = int(self.text.last_render_s * 1000 * _DUTY)
        return min(max(_FRAME_MS, wanted), _SLOWEST_FRAME_MS)

    def _flush(self) -> None:
        """Render what has come; what the reader has selected stays selected."""
        if not self._pending:
            return
        text = "".join(self._pending)
        self._pending.clear()
        before = self.text.textCursor()
        anchor, position = before.anchor(), before.position()
        self.text.append(text)
        after = self.text.textCursor()
        if anchor != position and (after.anchor(), after.position()) != (anchor, position):
            end = self.text.document().characterCount() - 1
            after.setPosition(min(anchor, end))
            after.setPosition(min(position, end), QTextCursor.MoveMode.KeepAnchor)
            self.text.setTextCursor(after)

    def _update_parts(self) -> None:
        message, live = self.message, self._live
        self._waiting.setVisible(live and not self.text.raw_text)
        self.text.setVisible(bool(message.text) or live)
        note = "" if live else answer_note(message)
        self._note.setText(note)
        self._note.setVisible(bool(note))
        self._note.setProperty("look", "danger" if message.state is AnswerState.FAILED else "muted")
        self._note.style().polish(self._note)
        self._stats.setText("" if live or message.stats is None else answer_stats(message.stats))
        self._stats.setToolTip(answer_details(message) if message.stats else "")
        self._footer.setVisible(not live)
        self._copy.setVisible(bool(message.text))
        self._again.setVisible(self._last)
        ended = message.state in (AnswerState.COMPLETE, AnswerState.FULL)
        self._go_on.setVisible(self._last and not ended)
        self._go_on.setText("Continue" if message.text else "Try again")
        self.grown.emit()


Bubble = UserMessage | AnswerMessage
