"""The conversation in hand: what is sent, streamed, stored, continued. No widgets in here."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from PySide6.QtCore import QObject, QTimer, Signal

from app.bridge import EngineBridge
from app.chat.titles import title_of
from app.history import AnswerState, Conversation, HistoryStore, StoredMessage, UndoToken
from app.settings import SettingsStore
from engine.commands import Generate, Stop
from engine.errors import UserFixable
from engine.events import Failed, Finished, FinishReason, TextDelta
from engine.request import ChatRequest, Message, Role, SamplingParams

_STORE_EVERY_MS = 100
_STATES = {
    FinishReason.STOPPED: AnswerState.STOPPED,
    FinishReason.ERROR: AnswerState.FAILED,
    FinishReason.CONTEXT: AnswerState.FULL,
    FinishReason.LENGTH: AnswerState.STOPPED,
}


@dataclass(slots=True)
class LiveAnswer:
    """The answer being written. `base` is what it had before this request (when continued)."""

    request_id: str
    conversation: Conversation
    base: StoredMessage
    text: list[str] = field(default_factory=list)
    unsaved_text: list[str] = field(default_factory=list)
    unsaved_ids: list[int] = field(default_factory=list)
    saving: bool = True

    @property
    def message(self) -> StoredMessage:
        """The answer as far as it has come."""
        return replace(self.base, text=self.base.text + "".join(self.text))


class ChatSession(QObject):
    """Joins history, engine and views. One answer is written at a time.

    Trouble with the history never stops an answer: it is told through `problem` and the text stays
    in the window.
    """

    list_changed = Signal(object)
    """The conversations that match the search, newest first."""
    opened = Signal(object)
    """The messages of the conversation that is now shown."""
    message_added = Signal(object)
    message_dropped = Signal(int)
    answer_resumed = Signal(object)
    """An answer of the conversation shown is going on."""
    live_text = Signal(str)
    """More text of the answer being written, while its conversation is shown."""
    answer_finished = Signal(object)
    changed = Signal()
    """Which conversation is open, its title, or whether an answer is being written."""
    asked = Signal(float)
    """When the user asked for the answer that begins now, on the events' clock."""
    problem = Signal(object)
    """A `UserFixable`."""
    deleted = Signal(object, object)
    """A `Conversation` that was deleted, and the token that brings it back."""

    def __init__(
        self,
        store: HistoryStore,
        bridge: EngineBridge,
        settings: SettingsStore,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._store = store
        self._bridge = bridge
        self._settings = settings
        self._query = ""
        self._counter = 0
        self.current: Conversation | None = None
        self.messages: list[StoredMessage] = []
        self.live: LiveAnswer | None = None
        self._saver = QTimer(self)
        self._saver.setInterval(_STORE_EVERY_MS)
        self._saver.timeout.connect(self._save_pieces)
        bridge.subscribe(TextDelta, self._text_arrived)
        bridge.subscribe(Finished, self._finished)
        bridge.subscribe(Failed, self._failed)

    # -- conversations ---------------------------------------------------------------------

    def refresh(self) -> None:
        """Tell the list anew."""
        with self._reporting():
            self.list_changed.emit(self._store.conversations(self._query))

    def search(self, query: str) -> None:
        """Show only conversations that match."""
        self._query = query
        self.refresh()

    def open(self, conversation: Conversation | None) -> None:
        """Show a conversation; None starts a new one, which is stored with its first message."""
        messages: list[StoredMessage] = []
        if conversation is not None:
            with self._reporting():
                messages = self._store.messages(conversation.id)
        if self.live is not None and self._is_live(conversation):
            messages = [*messages[:-1], self.live.message]
        self.current, self.messages = conversation, messages
        self._remember(conversation)
        self.opened.emit(messages)
        self.changed.emit()

    def rename(self, conversation: Conversation, title: str) -> None:
        """Give a conversation another title; an empty one is ignored."""
        title = " ".join(title.split())
        if not title or title == conversation.title:
            self.refresh()
            return
        with self._reporting():
            self._store.rename(conversation.id, title)
            if self.current is not None and self.current.id == conversation.id:
                self.current = replace(self.current, title=title)
                self.changed.emit()
        self.refresh()

    def delete(self, conversation: Conversation) -> None:
        """Delete a conversation; an answer in progress in it is stopped."""
        if self._is_live(conversation):
            self.stop()
        with self._reporting():
            token = self._store.delete(conversation.id)
            if self.current is not None and self.current.id == conversation.id:
                self.open(None)
            self.refresh()
            self.deleted.emit(conversation, token)

    def undelete(self, conversation: Conversation, token: UndoToken) -> None:
        """Bring a deleted conversation back and show it."""
        with self._reporting():
            self._store.undelete(token)
            self.refresh()
            self.open(conversation)

    # -- answers ---------------------------------------------------------------------------

    def send(self, text: str) -> bool:
        """Send a message; whether it was taken."""
        if not text.strip() or self.live is not None:
            return False
        clicked_at = time.perf_counter()
        taken = False
        with self._reporting():
            conversation = self.current
            if conversation is None:
                conversation = self._store.create_conversation(title_of(text))
            message = self._store.add_user_message(conversation.id, text)
            self.current = conversation
            self.messages.append(message)
            self.message_added.emit(message)
            self._remember(conversation)
            self._answer(clicked_at)
            self.refresh()
            taken = True
        return taken  # noqa: RET504 - the context above swallows errors

    def stop(self) -> None:
        """Stop the answer being written."""
        if self.live is not None:
            self._bridge.submit(Stop(self.live.request_id))

    @property
    def can_continue(self) -> bool:
        """Whether the last answer shown is unfinished and can go on."""
        return self.live is None and bool(self.messages) and _unfinished(self.messages[-1])

    @property
    def can_regenerate(self) -> bool:
        """Whether the last message shown can be answered (again)."""
        return self.live is None and bool(self.messages)

    def continue_answer(self) -> None:
        """Go on with the last answer from where it stopped, with its own seed."""
        if not self.can_continue or self.current is None:
            return
        clicked_at = time.perf_counter()
        base = self.messages[-1]
        with self._reporting():
            self._store.resume_answer(base.id)
            self._begin(base, _sampling(base), clicked_at)
            self.answer_resumed.emit(base)

    def regenerate(self) -> None:
        """Write the last answer anew, or the one that is missing after a crash."""
        if not self.can_regenerate:
            return
        clicked_at = time.perf_counter()
        with self._reporting():
            last = self.messages[-1]
            if last.role is Role.ASSISTANT:
                self._store.drop_answer(last.id)
                self.messages.pop()
                self.message_dropped.emit(last.id)
            self._answer(clicked_at)

    def shut_down(self) -> None:
        """Before the history closes: save what has come; an open answer stays interrupted."""
        self._save_pieces()
        self._saver.stop()

    def _answer(self, clicked_at: float) -> None:
        """Ask for the answer to the last message."""
        if self.current is None:
            return
        settings = self._settings.value
        seed = secrets.randbits(32) if settings.seed is None else settings.seed
        sampling = SamplingParams(temperature=settings.temperature, seed=seed)
        message = self._store.begin_answer(
            self.current.id,
            model=self._bridge.status.model_name,
            seed=seed,
            temperature=settings.temperature,
        )
        self.messages.append(message)
        self._begin(message, sampling, clicked_at)
        self.message_added.emit(message)

    def _begin(self, base: StoredMessage, sampling: SamplingParams, clicked_at: float) -> None:
        if self.current is None:
            return
        self._counter += 1
        request_id = f"{base.id}-{self._counter}"
        self.live = LiveAnswer(request_id, self.current, base)
        self._saver.start()
        request = ChatRequest(
            request_id, request_messages(self.messages), sampling, clicked_at=clicked_at
        )
        self.asked.emit(clicked_at)
        self._bridge.submit(Generate(request))
        self.changed.emit()

    # -- events ----------------------------------------------------------------------------

    def _text_arrived(self, event: TextDelta) -> None:
        live = self.live
        if live is None or event.request_id != live.request_id:
            return
        live.text.append(event.text)
        live.unsaved_text.append(event.text)
        live.unsaved_ids.extend(span.token_id for span in event.spans)
        if self._is_live(self.current):
            self.live_text.emit(event.text)

    def _save_pieces(self) -> None:
        live = self.live
        if live is None or not live.unsaved_text or not live.saving:
            return
        live.saving = False
        with self._reporting():
            self._store.append_to_answer(live.base.id, "".join(live.unsaved_text), live.unsaved_ids)
            live.unsaved_text.clear()
            live.unsaved_ids.clear()
            live.saving = True

    def _finished(self, event: Finished) -> None:
        live = self.live
        if live is None or event.request_id != live.request_id:
            return
        self.live = None
        self._saver.stop()
        base = live.base
        ids = None
        if event.token_ids is not None and base.token_ids is not None:
            ids = (*base.token_ids, *event.token_ids)
        message = replace(
            base,
            text=base.text + event.text,
            token_ids=ids,
            state=_STATES.get(event.reason, AnswerState.COMPLETE),
            stats=event.stats if event.stats.committed else base.stats,
            signature=event.signature,
        )
        if self._is(self.current, live.conversation):
            self.messages[-1] = message
            self.answer_finished.emit(message)
        with self._reporting():
            self._store.finish_answer(
                message.id,
                text=message.text,
                token_ids=message.token_ids,
                state=message.state,
                stats=message.stats,
                signature=message.signature,
            )
        self.refresh()
        self.changed.emit()

    def _failed(self, event: Failed) -> None:
        if event.request_id is not None:
            self.problem.emit(UserFixable(event.cause, event.remedy, event.details))

    def _remember(self, conversation: Conversation | None) -> None:
        """Save at once what is open: after a power cut the next start shows it again."""
        self._settings.change(last_conversation=conversation.id if conversation else None)
        self._settings.flush()

    # -- inside ----------------------------------------------------------------------------

    def _is_live(self, conversation: Conversation | None) -> bool:
        return self.live is not None and self._is(conversation, self.live.conversation)

    @staticmethod
    def _is(one: Conversation | None, other: Conversation) -> bool:
        return one is not None and one.id == other.id

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """Tell the user of trouble with the history instead of failing."""
        try:
            yield
        except UserFixable as error:
            self.problem.emit(error)


def request_messages(messages: Sequence[StoredMessage]) -> tuple[Message, ...]:
    """The messages as the engine wants them; answers of which nothing was written are left out."""
    return tuple(
        Message(message.role, message.text, message.token_ids)
        for message in messages
        if message.text
    )


def _unfinished(message: StoredMessage) -> bool:
    states = {AnswerState.STOPPED, AnswerState.INTERRUPTED, AnswerState.FAILED}
    return message.role is Role.ASSISTANT and message.state in states


def _sampling(message: StoredMessage) -> SamplingParams:
    return SamplingParams(temperature=message.temperature, seed=message.seed)
