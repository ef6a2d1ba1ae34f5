"""Applies a wish while an answer is written: that is stopped, and goes on by itself afterwards."""

from __future__ import annotations

from PySide6.QtCore import QObject

from app.engine_link.running import Running
from app.history import Conversation
from app.session.session import ChatSession
from app.settings.profiles import ModelProfile


class Interruption(QObject):
    """The engine reads a continued answer again from its start, with its own seed."""

    def __init__(
        self, running: Running, session: ChatSession, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._running, self._session = running, session
        self._answer: int | None = None
        """The message that is to go on."""
        session.writer.stored.connect(self._stored)

    @property
    def possible(self) -> bool:
        """True if there is an answer that could go on by itself: the one on show."""
        return self._session.shows_live

    def apply(self, wish: ModelProfile) -> None:
        """Run the model like this at once."""
        live = self._session.live
        self._answer = live.base.id if live is not None and self.possible else None
        self._running.apply(wish, now=True)

    def _stored(self, _conversation: Conversation) -> None:
        """The answer has ended. The engine has the load already: what is asked now comes after."""
        answer, self._answer = self._answer, None
        messages = self._session.messages
        if answer is not None and messages and messages[-1].id == answer:
            self._session.continue_answer()
