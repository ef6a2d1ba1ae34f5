"""An answer: over the whole column, while it is written and after."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QLabel, QWidget

from app.chat.messages.answer_details import AnswerDetails
from app.chat.messages.answer_texts import answer_details, answer_note, answer_numbers
from app.chat.messages.message_actions import Act, MessageRequests
from app.chat.messages.message_footer import FooterState, footer_height
from app.chat.messages.message_row import BELOW, GAP, MessageRow
from app.chat.messages.user_message import UserMessage
from app.history import AnswerState, StoredMessage
from app.session.live_answer import LiveAnswer
from engine.events import TextDelta, TokenSpan
from engine.language import tr

_FRAME_MS = 33
_SLOWEST_FRAME_MS = 250
_DUTY = 16
"""Rendering may take one part in so many of the time."""
_NEARLY_S = 0.004
"""A frame that is due so soon is not waited for."""


class AnswerMessage(MessageRow):
    """An answer: its text, how it ended, its numbers, and what can be done with it."""

    def __init__(self, message: StoredMessage, requests: MessageRequests, parent: QWidget) -> None:
        super().__init__(message, requests, tr("Answer"), parent)
        self._pending: list[str] = []
        self._live: LiveAnswer | None = None
        self._tinted = False
        self._late_spans: list[TokenSpan] = []
        """Spans of the text that came since `message` was taken in."""
        self._waiting: QLabel | None = None
        self._note: QLabel | None = None
        self._rendered_at = -inf
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._flush)
        self._filter: CallFilter | None = None
        self.text.prepare(shown_text(message))
        self.update_parts()

    @property
    def busy(self) -> bool:
        """Return True also for an answer that is being written."""
        return self._live is not None or super().busy

    @property
    def note(self) -> str:
        """Return how the answer ended, in words; empty when it simply ended."""
        return "" if self._note is None else self._note.text()

    @property
    def always_shown(self) -> bool:
        """The last answer shows what can be done with it."""
        return self._is_last and self._live is None

    def arrange(self, width: int) -> int:
        """Text, note and footer below each other."""
        y = 0
        if self._waiting is not None:
            self._waiting.setGeometry(0, y, width, self._waiting.sizeHint().height())
            y += self._waiting.height() + BELOW
        if not self.text.isHidden():
            self.text.setGeometry(0, y, width, self.text.height())
            y += self.text.height() + BELOW
        if self._note is not None:
            self._note.setGeometry(0, y, width, self._note.heightForWidth(width))
            y += self._note.height() + BELOW
        # The footer keeps its room while the answer is written: the end does not jump when it ends.
        self.footer.setGeometry(0, y, width, footer_height())
        return self.above_divider(width, y + footer_height() + GAP)

    # -- an answer being written ---------------------------------------------------------------

    def follow(self, live: LiveAnswer) -> None:
        """Show what comes of an answer being written."""
        if live is self._live:
            return
        self._live = live
        live.wrote.connect(self._take_text)
        live.refused.connect(self._add_ghost)
        live.ended.connect(self._finish)
        self._late_spans.clear()
        if live.tools.tools:
            from app.session.calls import CallFilter  # most answers call nothing

            self._filter = CallFilter(live.tools.tools)
        if self.message.text:  # a continued answer goes on in its last paragraph
            self.text.reopen(self._filtered(self.message.text))
        else:
            self.say("")
        self.show_tint(on=self._tinted)
        self.update_parts()

    def say(self, words: str) -> None:
        """Say what is going on before the first words come."""
        if self._live is None or self.whole_text():
            return
        if self._waiting is None:
            self._waiting = QLabel(self)
            self._waiting.setProperty("look", "muted")
            self._waiting.show()
        self._waiting.setText(f"{words}\u2026")
        self.grown.emit()

    def _take_text(self, delta: TextDelta) -> None:
        self._append(self._filtered(delta.text))
        self._late_spans.extend(delta.spans)
        if self._tinted:
            self.text.add_tint(delta.spans)

    def _filtered(self, text: str) -> str:
        """Leave tool calls out of what comes: they have messages of their own."""
        return text if self._filter is None else self._filter.feed(text)

    def _append(self, text: str) -> None:
        """Take in more text; it is rendered at once, but not more often than frames are due."""
        if not text:
            return
        self._pending.append(text)
        if self._timer.isActive():
            return
        left = self._rendered_at + self._next_frame() / 1000 - time.perf_counter()
        if left <= _NEARLY_S:
            self._flush()  # within the frame that brings it: one picture, not two
        else:
            self._timer.start(int(1000 * left))

    def _add_ghost(self, at: int, text: str) -> None:
        """Show along with the tint what the draft would have written at this place."""
        if self._tinted:
            self.text.add_ghost(at, text)

    def show_tint(self, *, on: bool) -> None:
        """Show, or no longer, which words the draft guessed."""
        if on is not self._tinted:
            self._tinted = on
            self.update_parts()
        marks = self.message.marks
        self.text.clear_ghosts()
        self.text.set_tint([*(marks.spans() if marks else ()), *self._late_spans] if on else None)

    def _finish(self, message: StoredMessage) -> None:
        """The answer is over; `message` is what was stored."""
        self._flush()
        self._timer.stop()
        self._live = None
        self._stop_waiting()
        self.message = message
        self._late_spans.clear()
        shown = shown_text(message)
        if self.text.raw_text == shown:
            self.text.finish()
        else:
            self.text.show_markdown(shown)
        if self._tinted:
            self.show_tint(on=True)
        self.update_parts()

    def whole_text(self) -> str:
        """Return the text that has come so far."""
        if self._live is None:
            return shown_text(self.message)
        return self.text.raw_text + "".join(self._pending)

    def _next_frame(self) -> int:
        """Slow rendering (a long paragraph or table still open) is done less often."""
        wanted = int(self.text.last_render_s * 1000 * _DUTY)
        return min(max(_FRAME_MS, wanted), _SLOWEST_FRAME_MS)

    def _flush(self) -> None:
        """Render what has come; what the reader has selected stays selected."""
        if not self._pending:
            return
        self._stop_waiting()
        self._rendered_at = time.perf_counter()
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
        """Renew how the answer ended, its numbers, its versions and its actions."""
        message = self.message
        self.text.setVisible(bool(shown_text(message)) or self._live is not None)
        self._show_note("" if self._live is not None else answer_note(message))
        if self._live is not None:
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
                    on=Act.TINT if self._tinted else None,
                    buttons=self._buttons(),
                )
            )
        super().update_parts()

    def _icons(self) -> list[Act]:
        text = [Act.COPY] if self.message.text else []
        stats = self.message.stats
        drafted = stats is not None and stats.accepted > 0 and self.message.marks is not None
        return [*text, Act.AGAIN, *([Act.TINT] if drafted else []), Act.MORE]

    def _buttons(self) -> tuple[tuple[Act, str], ...]:
        """Return the buttons that lead on from a half answer at the end."""
        state = self.message.state
        if not self._is_last or state is AnswerState.COMPLETE:
            return ()
        if state is AnswerState.FULL:
            return ((Act.CONTINUE, tr("Make room")),)
        if state is AnswerState.REPEATED:
            return ((Act.CONTINUE, tr("Resume")), (Act.VARY, Act.VARY.words))
        return ((Act.CONTINUE, tr("Continue") if self.message.text else tr("Try again")),)

    def groups(self) -> Sequence[Sequence[Act]]:
        """The actions of the menu."""
        if self._live is not None:
            return ((Act.COPY, Act.PLAIN),)
        go_on = [act for act, _ in self._buttons()]
        return (
            (Act.COPY, Act.PLAIN),
            (Act.AGAIN, *go_on, *self.versions()),
            (Act.REWRITE, Act.FORK),
            (Act.NUMBERS, Act.ROUNDS),
            (Act.DELETE,),
        )

    def act(self, act: Act) -> None:
        """Do an action of an answer: show its statistics, tint it, or what every message has."""
        if act is Act.NUMBERS:
            details = AnswerDetails(self.message, self.window())
            details.rounds_asked.connect(lambda: self.act(Act.ROUNDS))
            details.open()
        elif act is Act.REWRITE:
            from app.chat.messages.answer_editor import AnswerEditor

            editor = AnswerEditor(self.message.text, self.window())
            editor.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            rewritten = partial(self.requests.rewrite.emit, self.message.id)
            editor.saved.connect(rewritten)
            editor.open()
        elif act is Act.FORK:
            self.requests.fork.emit(self.message.id)
        elif act is Act.TINT:
            self.requests.underline.emit(not self._tinted)
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
            self._note = QLabel(self, wordWrap=True)
            self._note.show()
        failed = self.message.state is AnswerState.FAILED
        self._note.setProperty("look", "danger" if failed else "muted")
        self._note.style().polish(self._note)
        self._note.setText(words)


def shown_text(message: StoredMessage) -> str:
    """Return an answer's text as it is shown: without the calls that became messages."""
    if not message.calls:
        return message.text
    from app.session import calls

    return calls.shown_text(message)


if TYPE_CHECKING:
    from app.chat.messages.tool_message import ToolMessage
    from app.session.calls import CallFilter

    Bubble = UserMessage | AnswerMessage | ToolMessage
else:  # few chats have a tool's message
    Bubble = UserMessage | AnswerMessage
