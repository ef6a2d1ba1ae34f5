"""Pointing at the timeline marks the words written then; pointing at a word shows its round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from app.chat.messages.transcript import Transcript
from app.session.session import ChatSession

if TYPE_CHECKING:  # it imports numpy, which the modules of the start do without
    from app.performance.panel import PerformancePanel

_REMEMBERED = 64
"""Answers of this run whose rounds can be pointed at."""


class RoundHighlight(QObject):
    """Joins the performance panel, which knows requests, and the messages, which have ids."""

    def __init__(
        self,
        session: ChatSession,
        transcript: Transcript,
        panel: PerformancePanel,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._transcript = transcript
        self._panel = panel
        self._message_of: dict[str, int] = {}
        self._request_of: dict[int, str] = {}
        session.began.connect(self.join)
        panel.range_hovered.connect(self._mark)
        transcript.text_hovered.connect(self._show)

    def join(self, request_id: str, message_id: int) -> None:
        """Note the rounds that wrote a message."""
        self._message_of[request_id] = message_id
        self._request_of[message_id] = request_id
        if len(self._message_of) > _REMEMBERED:
            oldest = next(iter(self._message_of))
            self._request_of.pop(self._message_of.pop(oldest), None)

    def _mark(self, request_id: str, start: int, end: int) -> None:
        message_id = self._message_of.get(request_id)
        if message_id is None or start < 0:
            self._transcript.clear_mark()
        else:
            self._transcript.mark_answer_range(message_id, start, end)

    def _show(self, message_id: int, offset: int) -> None:
        self._panel.show_offset(self._request_of.get(message_id, ""), offset)
