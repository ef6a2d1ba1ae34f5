"""Opens the page of an answer's rounds: read from the history, put together beside the window."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from app.engine_link.background import in_background
from app.history import HistoryStore
from app.notices import report, tell
from app.performance.baseline import WithoutDraft
from app.session.session import ChatSession
from app.shell.page_names import PageName
from app.shell.page_stack import PageStack
from engine.errors import UserFixable
from engine.events import Event
from engine.language import tr

if TYPE_CHECKING:
    from app.performance.recorded import RecordedAnswer

_log = logging.getLogger(__name__)


class Replays(QObject):
    """One page at a time; the newest wish counts."""

    def __init__(
        self,
        store: HistoryStore,
        session: ChatSession,
        pages: PageStack,
        without: WithoutDraft,
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._store, self._session, self._pages = store, session, pages
        self._without = without
        self._wanted: int | None = None

    def show(self, message_id: int) -> None:
        """Show the rounds of an answer that is on show in the chat."""
        from app.performance.recorded import RecordedAnswer

        live = self._session.live
        if live is not None and live.base.id == message_id:
            self._pages.open(PageName.PERFORMANCE)  # the page of what happens now
            return
        message = next((m for m in self._session.messages if m.id == message_id), None)
        if message is None:
            return
        try:
            packed = self._store.answers.rounds(message_id)
            verdict = self._store.answers.verdict(message_id)
        except UserFixable as error:
            report(error)
            return
        self._wanted = message_id
        recorded = RecordedAnswer(message, packed)
        in_background(self, recorded.events, partial(self._read, recorded, verdict), self._failed)

    def _read(self, recorded: RecordedAnswer, verdict: str, events: list[Event]) -> None:
        message = recorded.message
        if message.id != self._wanted:
            return
        self._wanted = None
        if not events:
            tell(tr("The rounds of this answer were not kept."))
            return
        from app.performance.feed import Feed
        from app.performance.replay import ReplayPage
        from app.performance.sight import Whose
        from app.performance.verdict import SpeedVerdict

        feed = Feed()
        feed.sight.whose = Whose("", message.model, message.created_at)
        feed.handle_all(events)
        if (passed := SpeedVerdict.unpacked(verdict)) is not None:
            feed.model.verdicts[recorded.request_id] = passed
        page = ReplayPage(feed, self._without)
        page.live_asked.connect(lambda: self._pages.open(PageName.PERFORMANCE))
        self._pages.open_instead(PageName.PERFORMANCE, page)

    def _failed(self, error: Exception) -> None:
        _log.error("the rounds of an answer cannot be shown", exc_info=error)
        tell(tr("The rounds of this answer were not kept."))
