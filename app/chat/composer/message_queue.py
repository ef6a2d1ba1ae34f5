"""Messages written while an answer is: each is sent when the answer before it has ended.

They wait in their conversation, and are sent while it is on show. Behind an answer that failed,
filled the context or repeated itself they go on waiting, until they are sent by hand or something
else was answered.
"""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer

from app.chat.composer.waiting_messages import WaitingMessages
from app.history import AnswerState
from app.session.attachments import with_attachments
from app.session.message_drafts import Draft
from app.session.session import ChatSession
from app.signals import TypedSignal

_HOLDS = {AnswerState.FAILED, AnswerState.FULL, AnswerState.REPEATED}


class MessageQueue(QObject):
    """Joins the session and the lines above the composer."""

    edit_asked = TypedSignal[Draft]()
    """The `Draft` that shall be in the composer again."""

    def __init__(self, view: WaitingMessages, session: ChatSession) -> None:
        super().__init__(view)
        self._view, self._session = view, session
        self._waiting: dict[int | None, list[Draft]] = {}
        self._urgent = False
        self._turn = QTimer(self, singleShot=True, interval=0)
        self._turn.timeout.connect(self._send_next)
        view.send_asked.connect(self.send_now)
        view.edit_asked.connect(self._edit)
        view.removed.connect(self._remove)
        session.changed.connect(self._follow)

    @property
    def waiting(self) -> list[Draft]:
        """The messages that wait in the conversation on show, the next one first."""
        return self._waiting.setdefault(self._key, [])

    def add(self, draft: Draft) -> None:
        """Let a message wait behind those that do."""
        self.waiting.append(draft)
        self._follow()

    def send_now(self, draft: Draft) -> None:
        """Send a message before the others, and stop the answer it would wait for."""
        self.waiting.remove(draft)
        self.waiting.insert(0, draft)
        self._urgent = True
        self._session.stop()
        self._follow()

    def take_all(self) -> dict[int | None, list[Draft]]:
        """Give away everything that waits, by conversation: nothing will be sent any more."""
        waiting, self._waiting = self._waiting, {}
        return {key: drafts for key, drafts in waiting.items() if drafts}

    @property
    def _key(self) -> int | None:
        current = self._session.current
        return None if current is None else current.id

    def _follow(self) -> None:
        self._view.show_drafts(self.waiting)
        if self.waiting and not self._session.busy:
            self._turn.start()  # whoever tells of the change is done then

    def _send_next(self) -> None:
        messages, waiting = self._session.messages, self.waiting
        held = bool(messages) and messages[-1].state in _HOLDS and not self._urgent
        if not waiting or self._session.busy or held:
            return
        key, draft = self._key, waiting[0]
        if self._session.send(with_attachments(draft.attachments, draft.text)):
            self._urgent = False
            waiting.remove(draft)
            if key != self._key:  # it has begun the conversation, in which the others wait now
                self._waiting[self._key] = self._waiting.pop(key)
            self._follow()

    def _edit(self, draft: Draft) -> None:
        self._remove(draft)
        self.edit_asked.emit(draft)

    def _remove(self, draft: Draft) -> None:
        self.waiting.remove(draft)
        self._follow()
