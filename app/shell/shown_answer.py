"""The answer that the performance panel shows: the last one of the open chat."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from app.engine_link.background import in_background
from app.history import HistoryStore, StoredMessage
from app.session.attachments import sent_files
from app.session.session import ChatSession
from app.shell.round_highlight import RoundHighlight
from engine.errors import UserFixable
from engine.request import Role

if TYPE_CHECKING:  # it imports numpy, which the modules of the start do without
    from app.performance.feed import Feed
    from app.performance.model import PerformanceModel

_LONGEST = 200
"""Letters of a question: more would fit no line."""
_log = logging.getLogger(__name__)


class ShownAnswer(QObject):
    """Reads the rounds of an earlier answer when its chat is opened and somebody looks at them.

    Args:
        store: has the rounds.
        session: has the chat.
        feed: shows them.
        highlight: joins them with the words of the chat.
    """

    def __init__(
        self,
        store: HistoryStore,
        session: ChatSession,
        feed: Feed,
        highlight: RoundHighlight,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._store, self._session, self._feed = store, session, feed
        self._highlight = highlight
        self._live: int | None = None
        """The message that the newest request of this run writes."""
        self._shown: int | None = None
        self._due = False
        session.began.connect(self._began)
        for signal in (session.opened, session.branch_changed):
            signal.connect(self.look)
        feed.looked_at.connect(self._catch_up)

    def look(self) -> None:
        """Show the answer that the open chat ends with."""
        answers = [each for each in self._session.messages if each.role is Role.ASSISTANT]
        message = answers[-1] if answers else None
        wanted = None if message is None else message.id
        if wanted != self._shown or wanted == self._live:
            self._shown, self._due = wanted, True
            if self._feed.watched:
                self._catch_up()

    def _began(self, _request_id: str, message_id: int) -> None:
        self._live = self._shown = message_id
        self._due = False
        self._show(None, message_id)

    def _catch_up(self) -> None:
        if not self._due:
            return
        self._due = False
        message = next((m for m in self._session.messages if m.id == self._shown), None)
        if message is None or message.id == self._live:
            from app.performance.model import PerformanceModel

            empty = message is None and self._live is not None
            self._show(PerformanceModel() if empty else None, self._shown)
            return
        try:
            packed = self._store.answers.rounds(message.id)
            verdict = self._store.answers.verdict(message.id)
        except UserFixable:
            packed, verdict = (), ""  # the chat has told of it
        account = partial(_account, message, packed, verdict)
        in_background(self, account, partial(self._read, message), self._failed)

    def _read(self, message: StoredMessage, account: PerformanceModel) -> None:
        if message.id == self._shown:
            self._highlight.join(account.timeline.request_id, message.id)
            self._show(account, message.id)

    def _failed(self, error: Exception) -> None:
        _log.error("the rounds of an answer cannot be shown", exc_info=error)

    def _show(self, account: PerformanceModel | None, message_id: int | None) -> None:
        from app.performance.sight import Whose

        messages = self._session.messages
        place = next((i for i, each in enumerate(messages) if each.id == message_id), None)
        before = [] if place is None else messages[:place]
        question = next((_said(m.text) for m in reversed(before) if m.role is Role.USER), "")
        kept = messages[place] if account is not None and place is not None else None
        whose = Whose(question[:_LONGEST], *((kept.model, kept.created_at) if kept else ()))
        self._feed.sight.show_answer(account, whose)


def _said(message: str) -> str:
    """Return what was said with a message, else the name of its first file."""
    files, start = sent_files(message)
    said = message[start : start + _LONGEST].strip()
    return said or (files[0].name if files else "")


def _account(message: StoredMessage, packed: tuple[bytes, ...], verdict: str) -> PerformanceModel:
    """Return the account of an answer; an empty one where no rounds were kept."""
    from app.performance.model import PerformanceModel
    from app.performance.recorded import RecordedAnswer
    from app.performance.verdict import SpeedVerdict

    account, recorded = PerformanceModel(), RecordedAnswer(message, packed)
    account.feed(recorded.events())
    account.advance()
    if (passed := SpeedVerdict.unpacked(verdict)) is not None:
        account.verdicts[recorded.request_id] = passed
    return account
