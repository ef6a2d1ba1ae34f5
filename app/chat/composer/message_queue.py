"""Messages written while an answer is: each is sent when the answer before it has ended.

They wait in their conversation, and are sent while it is on show. Behind an answer that failed,
filled the context or repeated itself they go on waiting, until they are sent by hand or something
else was answered. Each is counted as it comes: one that does not fit into the context says so, and
is not sent by itself. One whose length is not known yet waits for its count.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from PySide6.QtCore import QObject, QTimer, Signal

from app.chat.composer.context_meter import Fill
from app.chat.composer.waiting_messages import WaitingMessages
from app.engine_link.asker import Asker
from app.engine_link.bridge import EngineBridge
from app.history import AnswerState, StoredMessage
from app.session.attachments import with_attachments
from app.session.message_drafts import Draft
from app.session.request import counted_request
from app.session.session import ChatSession
from app.signals import TypedSignal
from engine.request import Role

UNSENT = -1
"""The id of a message that is counted before it is sent."""
_HOLDS = {AnswerState.FAILED, AnswerState.FULL, AnswerState.REPEATED}


class MessageQueue(QObject):
    """Joins the session and the lines above the composer."""

    edit_asked = TypedSignal[Draft]()
    """The `Draft` that shall be in the composer again."""
    too_long = TypedSignal[Draft, int]()
    """The next one has its turn and does not fit: tokens of the conversation with it. Told once."""
    recounted = Signal()
    """`tokens` has changed."""

    def __init__(self, view: WaitingMessages, session: ChatSession, bridge: EngineBridge) -> None:
        super().__init__(view)
        self._view, self._session, self._bridge = view, session, bridge
        self._asker = Asker(bridge, self)
        self._waiting: dict[int | None, list[Draft]] = {}
        self._tokens: dict[Draft, int] = {}
        self._fill: Fill | None = None
        self._filled_by: int | None = None
        """Id of the newest message when `_fill` was counted."""
        self._told: Draft | None = None
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

    @property
    def tokens(self) -> int:
        """Return the tokens of the messages that wait here, as far as they are counted."""
        return sum(self._tokens.get(draft, 0) for draft in self.waiting)

    def add(self, draft: Draft) -> None:
        """Let a message wait behind those that do."""
        self.waiting.append(draft)
        self._follow()
        self._count()

    def follow_fill(self, fill: Fill | None) -> None:
        """Take in how full the conversation on show is without what waits; None: not known."""
        self._fill, self._filled_by = fill, self._newest
        if fill is None:
            self._told = None
            self._count()  # another conversation's may have waited for it
        if self.waiting:
            self._follow()

    def follow_refusal(self) -> None:
        """Nobody can count the conversation on show: the engine says why when a message is sent."""
        plan = self._bridge.status.plan
        if plan is not None:
            self.follow_fill(Fill(0, plan.context))

    @property
    def lacks_fill(self) -> bool:
        """True if messages wait for a count of the conversation on show, as it is now."""
        return bool(self.waiting) and (self._fill is None or self._filled_by != self._newest)

    def count_again(self) -> None:
        """Count all of them: another model counts in another way."""
        self._tokens.clear()
        self._count()

    def send_now(self, draft: Draft) -> None:
        """Send a message before the others, and stop the answer it would wait for."""
        if draft not in self.waiting:
            return
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

    @property
    def _newest(self) -> int | None:
        messages = self._session.messages
        return messages[-1].id if messages else None

    def _follow(self) -> None:
        self._show()
        if self.waiting and not self._session.busy:
            self._turn.start()  # whoever tells of the change is done then

    def _show(self) -> None:
        self._view.show_drafts(self.waiting)
        fill = self._fill
        for line in self._view.lines:
            if fill is not None:
                fill = self._with(line.draft, fill)
            line.show_fill(fill)

    def _with(self, draft: Draft, fill: Fill) -> Fill:
        """Return how full the context is with one more message."""
        return replace(fill, used=fill.used + self._tokens.get(draft, 0))

    def _count(self) -> None:
        """Count the first message that is not counted yet, and then the next one."""
        plan = self._bridge.status.plan
        new = next((each for each in self.waiting if each not in self._tokens), None)
        if new is None or plan is None or plan.host:  # a server does not count
            return

        def counted(tokens: int) -> None:
            self._tokens[new] = tokens
            self._follow()
            self.recounted.emit()
            self._count()

        message = StoredMessage(UNSENT, Role.USER, with_attachments(new.attachments, new.text))
        setup = replace(self._session.sent_setup, system_prompt="")
        build = partial(counted_request, [message], setup)
        self._asker.count(build, counted, refused=lambda: counted(0))

    def _send_next(self) -> None:
        messages, waiting = self._session.messages, self.waiting
        held = bool(messages) and messages[-1].state in _HOLDS and not self._urgent
        if not waiting or self._session.busy or held:
            return
        key, draft = self._key, waiting[0]
        if not self._urgent and not self._has_room(draft):
            return
        if self._session.send(with_attachments(draft.attachments, draft.text)):
            self._urgent = False
            self._forget(waiting, draft)
            if key != self._key:  # it has begun the conversation, in which the others wait now
                self._waiting[self._key] = self._waiting.pop(key)
            self._follow()

    def _has_room(self, draft: Draft) -> bool:
        """Return whether a message is known to fit; says so once where it is known not to.

        Asked again at every count. A server does not count: with its model every message fits.
        """
        plan = self._bridge.status.plan
        if plan is None:
            return False
        if not plan.host and (self.lacks_fill or draft not in self._tokens):
            return False
        fill = None if self._fill is None else self._with(draft, self._fill)
        if fill is None or fill.fits:
            return True
        if draft is not self._told:
            self._told = draft
            self.too_long.emit(draft, fill.used)
        return False

    def _edit(self, draft: Draft) -> None:
        self._remove(draft)
        self.edit_asked.emit(draft)

    def _forget(self, waiting: list[Draft], draft: Draft) -> None:
        waiting.remove(draft)
        if draft not in waiting:  # there may be one with the same words
            self._tokens.pop(draft, None)

    def _remove(self, draft: Draft) -> None:
        self._forget(self.waiting, draft)
        self._follow()
        self.recounted.emit()
