"""The message of a tool: the card of the call, and its result below, folded at first."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtWidgets import QApplication, QWidget

from app.chat.messages.message_actions import Act, MessageRequests
from app.chat.messages.message_footer import FooterState, footer_height
from app.chat.messages.message_row import BELOW, GAP, MessageRow
from app.chat.messages.tool_card import ToolCard
from app.history import StoredMessage
from app.tools.call_phase import CallPhase, Decision
from app.tools.entry import ToolEntry
from engine.language import tr

_INSET = 14


class ToolMessage(MessageRow):
    """A tool call, and what came of it."""

    def __init__(self, message: StoredMessage, requests: MessageRequests, parent: QWidget) -> None:
        super().__init__(message, requests, tr("Result of a tool"), parent)
        self.opened = False
        """True if the result is to be seen."""
        self._phase: CallPhase = CallPhase.WAITING
        self._entry: ToolEntry | None = None
        self.card = ToolCard(message, self)
        self.card.decided.connect(self._decide)
        self.card.fold_asked.connect(lambda: self.set_opened(opened=not self.opened))
        self.text.prepare("", markdown=False)
        self.text.hide()
        self.update_parts()

    def _decide(self, decision: Decision) -> None:
        self.requests.decide.emit(self.message.id, decision)

    def show_call(self, message: StoredMessage, phase: CallPhase, entry: ToolEntry | None) -> None:
        """Show how far the call is; the focus stays in the message where a button goes away."""
        if message.text != self.message.text and self.opened:
            self._lay_out(message.text)
        focus = QApplication.focusWidget()
        had_focus = focus is not None and self.card.isAncestorOf(focus)
        self.message, self._phase, self._entry = message, phase, entry
        self.update_parts()
        if had_focus and focus is not None and focus.isHidden():
            self.card.arguments.setFocus()

    def set_opened(self, *, opened: bool) -> None:
        """Show the result, or fold it."""
        opened = opened and bool(self.message.text)
        if opened and not self.opened:
            self._lay_out(self.message.text)
        self.opened = opened
        self.text.setVisible(opened)
        self.update_parts()

    def _lay_out(self, text: str) -> None:
        """Lay out a result; one that nobody opens costs nothing."""
        self.text.resize(max(self.width() - 2 * _INSET, _INSET), self.text.height())
        self.text.prepare(text, markdown=False)
        self.text.complete()

    @property
    def busy(self) -> bool:
        """Return True also for a call that waits for the user, or runs."""
        asked = self._phase in (CallPhase.ASKED, CallPhase.RUNNING)
        return asked or self.opened or super().busy

    @property
    def focus_chain(self) -> list[QWidget]:
        """The card comes first."""
        return [*self.card.stops, *super().focus_chain]

    def arrange(self, width: int) -> int:
        """Card, result and footer below each other."""
        height = self.card.height_in(width)
        self.card.setGeometry(0, 0, width, height)
        y = height + BELOW
        if self.opened:
            inner = width - 2 * _INSET
            self.text.resize(inner, self.text.height())
            self.text.move(_INSET, y)
            y += self.text.height() + BELOW
        self.footer.setGeometry(0, y, width, footer_height())
        return self.above_divider(width, y + footer_height() + GAP // 2)

    def update_parts(self) -> None:
        """Renew the card, and the actions below."""
        self.card.show_call(self.message, self._phase, self._entry, opened=self.opened)
        ended = self._phase not in (CallPhase.ASKED, CallPhase.WAITING, CallPhase.RUNNING)
        answer = ((Act.ANSWER, tr("Answer")),) if self._is_last and ended else ()
        self.footer.set_state(FooterState(acts=(Act.COPY, Act.MORE), buttons=answer))
        super().update_parts()

    def groups(self) -> Sequence[Sequence[Act]]:
        """The actions of the menu."""
        return (Act.COPY,), (Act.DELETE,)

    def whole_text(self) -> str:
        """Return the result."""
        return self.message.text

    def plain_text(self) -> str:
        """Return the result: it is plain text."""
        return self.message.text

    def unfolded_y(self, start: int, end: int) -> int | None:
        """Mark a stretch of the result, and unfold it."""
        self.set_opened(opened=True)
        return super().unfolded_y(start, end)
