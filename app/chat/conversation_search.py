"""Looks for words in the conversation on show, and goes from match to match."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QObject

from app.chat.find_bar import FindBar
from app.chat.messages.transcript import Transcript
from app.chat.text.source_map import utf16_length
from app.engine_link.background import in_background
from app.history import StoredMessage
from app.session.session import ChatSession

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Match:
    """A place in the source of a message, in UTF-16 units."""

    message_id: int
    start: int
    end: int


def matches_in(messages: Sequence[StoredMessage], words: str) -> list[Match]:
    """Return where `words` are, in any case, from the first message to the last."""
    if not words.strip():
        return []
    pattern = re.compile(re.escape(words), re.IGNORECASE)
    found: list[Match] = []
    for message in messages:
        text, at, units = message.text, 0, 0
        for match in pattern.finditer(text):
            units += utf16_length(text[at : match.start()])
            length = utf16_length(match[0])
            found.append(Match(message.id, units, units + length))
            at, units = match.end(), units + length
    return found


class ConversationSearch(QObject):
    """Joins the bar, the session's messages and the transcript."""

    def __init__(self, bar: FindBar, session: ChatSession, transcript: Transcript) -> None:
        super().__init__(bar)
        self._bar, self._session, self._transcript = bar, session, transcript
        self._matches: list[Match] = []
        self._place = 0
        self._asked = 0
        """Number of the search whose matches are awaited; those of earlier ones come too late."""
        bar.changed.connect(self._look)
        bar.stepped.connect(self._step)
        session.opened.connect(self.close)
        session.branch_changed.connect(self._count_anew)
        session.message_added.connect(self._count_anew)
        session.answer_finished.connect(self._count_anew)

    def open(self) -> None:
        """Show the bar with the keyboard in it, and look for what is there already."""
        self._bar.show()
        self._bar.field.setFocus()
        self._bar.field.selectAll()
        self._look()

    def close(self) -> None:
        """Hide the bar and take the marks away."""
        if not self._bar.isHidden():
            self._bar.hide()
            self._matches = []
            self._asked += 1
            self._transcript.search("")

    def _look(self) -> None:
        """Go to the first match in or below what is in sight."""
        self._transcript.search(self._bar.field.text())
        self._find(self._begin)

    def _begin(self) -> None:
        seen = {
            each.id for each in self._session.messages[self._transcript.visible_range().start :]
        }
        places = range(len(self._matches))
        self._place = next((i for i in places if self._matches[i].message_id in seen), 0)
        self._show()

    def _step(self, step: int) -> None:
        if self._matches:
            self._place = (self._place + step) % len(self._matches)
            self._show()

    def _show(self) -> None:
        self._bar.show_count(self._place + 1, len(self._matches))
        if self._matches:
            match = self._matches[self._place]
            self._transcript.show_match(match.message_id, match.start, match.end)

    def _count_anew(self) -> None:
        """Take in messages that are others now; the view stays where it is."""
        if self._bar.isHidden():
            return
        shown = self._matches[self._place] if self._matches else None

        def count() -> None:
            self._place = self._matches.index(shown) if shown in self._matches else 0
            self._bar.show_count(self._place + 1, len(self._matches))

        self._find(count)

    def _find(self, then: Callable[[], None]) -> None:
        """Find the matches beside the window, where a long conversation takes a while."""
        self._asked += 1
        asked, messages, words = self._asked, tuple(self._session.messages), self._bar.field.text()

        def found(matches: list[Match]) -> None:
            if asked == self._asked:
                self._matches = matches
                then()

        in_background(
            self,
            lambda: matches_in(messages, words),
            found,
            lambda error: _log.warning("the search in a conversation failed: %r", error),
        )
