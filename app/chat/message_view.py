"""How one message looks: the user's in a bubble, answers over the whole column."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from PySide6.QtCore import QTimer
from PySide6.QtGui import QFontMetricsF, QTextCursor
from PySide6.QtWidgets import QFrame, QLabel, QWidget

from app.chat.answer_details import AnswerDetails
from app.chat.message_actions import Act
from app.chat.message_editor import MessageEditor
from app.chat.message_footer import FOOTER, FooterState
from app.chat.message_row import GAP, MessageRow
from app.chat.words import answer_details, answer_note, answer_numbers
from app.history import AnswerState, StoredMessage
from engine.events import TokenSpan
from engine.language import tr

BUBBLE_SIDE, BUBBLE_EDGE = 16, 10
"""Space between a bubble's border and its text."""
_BELOW = 4
"""Space between a message and its footer."""
_SHARE = 0.82
"""A bubble is at most so much of the column wide."""
_FRAME_MS = 33
_SLOWEST_FRAME_MS = 250
_DUTY = 16
"""Rendering may take one part in so many of the time."""


class UserMessage(MessageRow):
    """What the user said, as typed."""

    def __init__(self, message: StoredMessage, parent: QWidget) -> None:
        super().__init__(message, tr("Your message"), parent)
        self.text.move(BUBBLE_SIDE, BUBBLE_EDGE)
        self.text.prepare(message.text, markdown=False)
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
        """A message that is being changed stays too."""
        return self.editor is not None or super().busy

    @property
    def focus_chain(self) -> list[QWidget]:
        """The editor takes the place of the text."""
        return super().focus_chain if self.editor is None else self.editor.stops

    def arrange(self, width: int) -> int:
        """The bubble is as wide as its text, at most most of the column."""
        if self.editor is not None:
            height = self.editor.arrange(width)
            self.editor.setGeometry(0, 0, width, height)
            return self.above_divider(width, height + GAP)
        inner = max(40, min(self._text_width(), int(width * _SHARE) - 2 * BUBBLE_SIDE))
        self.text.resize(inner, self.text.height())
        outer = inner + 2 * BUBBLE_SIDE
        left = 0 if self.isRightToLeft() else width - outer
        height = self.text.height() + 2 * BUBBLE_EDGE
        self._bubble.setGeometry(left, 0, outer, height)
        self.footer.setGeometry(0, height + _BELOW, width, FOOTER)
        return self.above_divider(width, height + _BELOW + FOOTER)

    def update_parts(self) -> None:
        """Versions and actions of a question."""
        message = self.message
        self.footer.set_state(
            FooterState(
                version=message.version,
                versions=message.versions,
                acts=(Act.COPY, Act.EDIT, Act.DELETE),
                button=(Act.ANSWER, tr("Answer")) if self._is_last else None,
            )
        )
        super().update_parts()

    def groups(self) -> Sequence[Sequence[Act]]:
        """The actions of the menu."""
        answer = [Act.ANSWER] if self._is_last else []
        return (Act.COPY, Act.PLAIN), (*answer, Act.EDIT, *self.versions()), (Act.DELETE,)

    def act(self, act: Act) -> None:
        """A question can be changed."""
        if act is Act.EDIT:
            self.edit()
        else:
            super().act(act)

    def plain_text(self) -> str:
        """What was typed is plain text."""
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
        self.edit_asked.emit(self.message.id, text)

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

    def _text_width(self) -> int:
        font = self.text.document().defaultFont()
        if self._natural_size != font.pointSizeF():
            self._natural_size = font.pointSizeF()
            metrics = QFontMetricsF(font)
            lines = self.message.text[:4_000].split("\n")
            self._natural = ceil(max(metrics.horizontalAdvance(line[:400]) for line in lines)) + 1
        return self._natural


class AnswerMessage(MessageRow):
    """An answer: its text, how it ended, its numbers, and what can be done with it."""

    def __init__(self, message: StoredMessage, parent: QWidget) -> None:
        super().__init__(message, tr("Answer"), parent)
        self._pending: list[str] = []
        self._live = False
        self._tinted = False
        self._late_spans: list[TokenSpan] = []
        """Who wrote the text that came since `message` was taken in."""
        self._waiting: QLabel | None = None
        self._note: QLabel | None = None
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._flush)
        self.text.prepare(message.text)
        self.update_parts()

    @property
    def busy(self) -> bool:
        """An answer that is being written stays too."""
        return self._live or super().busy

    @property
    def note(self) -> str:
        """How it ended, in words; empty when it simply ended."""
        return "" if self._note is None else self._note.text()

    @property
    def always_shown(self) -> bool:
        """The last answer shows what can be done with it."""
        return self._is_last and not self._live

    def arrange(self, width: int) -> int:
        """Text, note and footer below each other."""
        y = 0
        if self._waiting is not None:
            self._waiting.setGeometry(0, y, width, self._waiting.sizeHint().height())
            y += self._waiting.height() + _BELOW
        if not self.text.isHidden():
            self.text.setGeometry(0, y, width, self.text.height())
            y += self.text.height() + _BELOW
        if self._note is not None:
            self._note.setGeometry(0, y, width, self._note.heightForWidth(width))
            y += self._note.height() + _BELOW
        # The footer keeps its room while the answer is written: the end does not jump when it ends.
        self.footer.setGeometry(0, y, width, FOOTER)
        return self.above_divider(width, y + FOOTER + GAP)

    # -- an answer being written ---------------------------------------------------------------

    def begin(self) -> None:
        """Text is about to come."""
        self._live = True
        self._late_spans.clear()
        if self.message.text:  # a continued answer goes on in its last paragraph
            self.text.reopen(self.message.text)
        else:
            self.say("")
        self.show_tint(on=self._tinted)
        self.update_parts()

    def say(self, words: str) -> None:
        """Say what is going on before the first words come."""
        if not self._live or self.whole_text():
            return
        if self._waiting is None:
            self._waiting = QLabel(self)
            self._waiting.setProperty("look", "muted")
            self._waiting.show()
        self._waiting.setText(f"{words}\u2026")
        self.grown.emit()

    def append(self, text: str) -> None:
        """More text has come; it is rendered with the next frame."""
        self._pending.append(text)
        if not self._timer.isActive():
            self._timer.start(self._next_frame())

    def add_spans(self, spans: Sequence[TokenSpan]) -> None:
        """Who wrote the text that has just come."""
        self._late_spans.extend(spans)
        if self._tinted:
            self.text.add_tint(spans)

    def add_ghost(self, at: int, text: str) -> None:
        """What the draft would have written at this place; shown along with the tint."""
        if self._tinted:
            self.text.add_ghost(at, text)

    def show_tint(self, *, on: bool) -> None:
        """Show, or no longer, which words the draft guessed."""
        self._tinted = on
        marks = self.message.marks
        self.text.clear_ghosts()
        self.text.set_tint([*(marks.spans() if marks else ()), *self._late_spans] if on else None)

    def finish(self, message: StoredMessage) -> None:
        """The answer is over; `message` is what was stored."""
        self._flush()
        self._timer.stop()
        self._live = False
        self._stop_waiting()
        self.message = message
        self._late_spans.clear()
        if self.text.raw_text == message.text:
            self.text.finish()
        else:
            self.text.show_markdown(message.text)
        if self._tinted:
            self.show_tint(on=True)
        self.update_parts()

    def whole_text(self) -> str:
        """What has come so far."""
        return self.text.raw_text + "".join(self._pending) if self._live else self.message.text

    def _next_frame(self) -> int:
        """Slow rendering (a long paragraph or table still open) is done less often."""
        wanted = int(self.text.last_render_s * 1000 * _DUTY)
        return min(max(_FRAME_MS, wanted), _SLOWEST_FRAME_MS)

    def _flush(self) -> None:
        """Render what has come; what the reader has selected stays selected."""
        if not self._pending:
            return
        self._stop_waiting()
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

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.hide()
            self._waiting.deleteLater()
            self._waiting = None
            self.grown.emit()

    # -- the line below ------------------------------------------------------------------------

    def update_parts(self) -> None:
        """How the answer ended, its numbers, its versions, what can be done."""
        message = self.message
        self.text.setVisible(bool(message.text) or self._live)
        self._show_note("" if self._live else answer_note(message))
        if self._live:
            self.footer.set_state(FooterState())
        else:
            stats = message.stats
            self.footer.set_state(
                FooterState(
                    numbers=() if stats is None else answer_numbers(stats),
                    details=answer_details(message),
                    version=message.version,
                    versions=message.versions,
                    acts=tuple(self._icons()),
                    button=self._button(),
                )
            )
        super().update_parts()

    def _icons(self) -> list[Act]:
        text = [Act.COPY] if self.message.text else []
        return [*text, Act.AGAIN, Act.DELETE, Act.MORE]

    def _button(self) -> tuple[Act, str] | None:
        """A half answer at the end offers to go on."""
        state = self.message.state
        if not self._is_last or state is AnswerState.COMPLETE:
            return None
        if state is AnswerState.FULL:
            return Act.CONTINUE, tr("Make room")
        return Act.CONTINUE, tr("Continue") if self.message.text else tr("Try again")

    def groups(self) -> Sequence[Sequence[Act]]:
        """The actions of the menu."""
        if self._live:
            return ((Act.COPY, Act.PLAIN),)
        go_on = [Act.CONTINUE] if self._button() is not None else []
        return (
            (Act.COPY, Act.PLAIN),
            (Act.AGAIN, *go_on, *self.versions()),
            (Act.NUMBERS,),
            (Act.DELETE,),
        )

    def act(self, act: Act) -> None:
        """An answer can tell its numbers."""
        if act is Act.NUMBERS:
            AnswerDetails(self.message, self.window()).open()
        else:
            super().act(act)

    def _show_note(self, words: str) -> None:
        if not words:
            if self._note is not None:
                self._note.deleteLater()
                self._note.hide()
            self._note = None
            return
        if self._note is None:
            self._note = QLabel(self)
            self._note.setWordWrap(True)
            self._note.show()
        failed = self.message.state is AnswerState.FAILED
        self._note.setProperty("look", "danger" if failed else "muted")
        self._note.style().polish(self._note)
        self._note.setText(words)


Bubble = UserMessage | AnswerMessage
