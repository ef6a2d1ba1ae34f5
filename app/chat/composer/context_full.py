"""Ways out where a conversation does not fit into the context: found here, chosen by the user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QApplication

from app.chat.composer.context_card import ContextCard, LargerContext
from app.chat.composer.context_meter import Fill
from app.engine_link.asker import Asker
from app.engine_link.running import Running
from app.history import ChatSetup, StoredMessage
from app.session.request import counted_request, seen
from app.session.session import ChatSession
from engine.events import PlanSummary
from engine.language import tr
from engine.request import Role

_GOAL = 0.75
"""Share of the context that the conversation may fill afterwards, so that an answer has room."""
_LEAST_ROOM = 16


@dataclass(slots=True)
class _Search:
    """A binary search for the first place from which on the conversation fits."""

    messages: list[StoredMessage]
    starts: list[int]
    """Places where the conversation may begin: its questions."""
    setup: ChatSetup
    context: int
    low: int = 0
    high: int = 0
    counts: dict[int, int] | None = None


class ContextChoices(QObject):
    """Opens the card and carries out what is chosen; `go_on` sends or continues afterwards."""

    left = Signal()
    """The card closes while it has the focus."""

    def __init__(
        self,
        card: ContextCard,
        session: ChatSession,
        running: Running,
    ) -> None:
        super().__init__(card)
        self._card = card
        self._session = session
        self._running = running
        self._asker = Asker(running.bridge, self)
        self._go_on: Callable[[], None] = lambda: None
        self._leave_until: int | None = None
        self._typed = False
        card.left_out.connect(self._leave_out)
        card.enlarged.connect(self._enlarge)
        card.dismissed.connect(self.close)
        self.parts_asked = card.parts_asked

    def open(
        self,
        needed: int | None,
        unsent: Sequence[StoredMessage],
        go_on: Callable[[], None],
        *,
        typed: bool = False,
        files: bool = False,
    ) -> None:
        """Say that it does not fit, and look for ways on.

        Args:
            needed: tokens of a conversation that is too long; None: an answer filled the context.
            unsent: the text that comes after the messages on show.
            go_on: called once there is room.
            typed: whether the unsent text is in the composer: the card follows what is typed.
            files: whether there are attached files of which parts would do.
        """
        plan = self._running.status.plan
        if plan is None:
            return
        self._go_on, self._typed = go_on, typed
        self._card.open(*_words(needed, plan.context))
        if files:
            self._card.offer_parts()
        larger = larger_context(plan, needed or plan.context + 1)
        if larger is not None and self._running.possible:
            self._card.offer_larger(larger)
        self._look_for_room(plan, unsent)

    def follow(self, needed: int, context: int) -> None:
        """Follow what is typed: the card says how much it is now, and leaves when it fits."""
        if self._typed and self._card.isVisible():
            if needed < context:
                self.close()
            else:
                self._card.say(*_words(needed, context))

    def close(self) -> None:
        """Close the card without doing anything."""
        self._asker.forget()
        self._go_on = lambda: None
        focus = QApplication.focusWidget()
        if focus is not None and self._card.isAncestorOf(focus):
            self.left.emit()
        self._card.hide()

    def _look_for_room(self, plan: PlanSummary, unsent: Sequence[StoredMessage]) -> None:
        shown = seen(self._session.messages, self._session.setup)
        messages = [*shown, *unsent]
        starts = [i for i, each in enumerate(messages) if each.role is Role.USER and i > 0]
        self._leave_until = None
        if not starts:
            return
        self._card.counting()
        search = _Search(messages, starts, self._session.sent_setup, plan.context, counts={})
        search.high = len(starts) - 1
        self._probe(search)

    def _probe(self, search: _Search) -> None:
        middle = (search.low + search.high) // 2
        rest = search.messages[search.starts[middle] :]
        build = partial(counted_request, rest, search.setup, self._session.offers())
        self._asker.count(build, lambda tokens: self._narrow(search, middle, tokens))

    def _narrow(self, search: _Search, middle: int, tokens: int) -> None:
        counts = search.counts if search.counts is not None else {}
        counts[middle] = tokens
        if search.low < search.high:
            if tokens <= search.context * _GOAL:
                search.high = middle
            else:
                search.low = middle + 1
            if search.low not in counts:
                self._probe(search)
                return
        least = search.context - _LEAST_ROOM
        fits = counts[search.low] <= max(search.context * _GOAL, least)
        start = search.starts[search.low] if fits else 0
        if start:
            self._leave_until = search.messages[start - 1].id
        self._card.offer_leaving_out(start, more=search.setup.seen_after is not None)

    def _leave_out(self) -> None:
        if self._leave_until is not None:
            setup = replace(self._session.setup, seen_after=self._leave_until)
            self._session.set_setup(setup)
            self._finish()

    def _enlarge(self, tokens: int) -> None:
        self._running.apply(replace(self._running.profile, context=tokens))
        self._finish()

    def _finish(self) -> None:
        go_on = self._go_on
        self.close()
        go_on()


def larger_context(plan: PlanSummary, needed: int) -> LargerContext | None:
    """The next power of two that leaves room for an answer, within the model's own limit."""
    wanted = plan.context + 1
    size = 1024
    while size < max(wanted, int(needed / _GOAL)):
        size *= 2
    size = min(size, plan.context_limit)
    if size <= plan.context or size <= needed:
        return None
    per_token = plan.kv_bytes / plan.context if plan.context else 0.0
    return LargerContext(size, round((size - plan.context) * per_token))


def _words(needed: int | None, context: int) -> tuple[str, str, str]:
    """Title, text and the button that does nothing."""
    if needed is None:
        return (
            tr("The context is full, so the answer ends here."),
            tr("To continue, the model needs a longer context."),
            tr("Leave it as it is"),
        )
    return (
        tr("This does not fit into the context."),
        Fill(needed, context).excess,
        tr("Shorten it myself"),
    )
