"""The conversation in hand: which one is open, what the user wants of it. No widgets in here."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager

from PySide6.QtCore import QObject, Signal

from app.bridge import EngineBridge
from app.chat.answer_writer import AnswerWriter, LiveAnswer
from app.chat.request import chat_request, unfinished
from app.chat.titles import title_of
from app.conversations.library import ConversationList, Deletion
from app.history import ChatSetup, Conversation, HistoryStore, StoredMessage
from app.settings import SettingsStore
from engine.errors import UserFixable
from engine.events import Origin, RoundFinished, TextDelta
from engine.request import Role, SamplingParams


class ChatSession(QObject):
    """Joins history, engine and views. One answer is written at a time.

    Trouble with the history never stops an answer: it is told through `problem` and the text stays
    in the window.
    """

    opened = Signal(object)
    """The messages of the conversation that is now shown."""
    branch_changed = Signal(int, object)
    """Index of the first message that is another one now, and all messages."""
    message_added = Signal(object)
    answer_resumed = Signal(object)
    """An answer of the conversation shown is going on."""
    live_text = Signal(str)
    """More text of the answer being written, while its conversation is shown."""
    live_spans = Signal(object)
    """The `TokenSpan`s of that text."""
    live_ghost = Signal(int, str)
    """Where in the answer, in UTF-16 units, a drafted continuation was refused, and its text."""
    answer_finished = Signal(object)
    changed = Signal()
    """Which conversation is open, its title or setup, or whether an answer is being written."""
    asked = Signal(float)
    """When the user asked for the answer that begins now, on the events' clock."""
    problem = Signal(object)
    """A `UserFixable`."""
    deleted = Signal(str, object)
    """What was deleted, as a sentence, and the token for `undelete`."""

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
        self.conversations = ConversationList(store, self)
        self._own_token_at = 0
        self.current: Conversation | None = None
        self.messages: list[StoredMessage] = []
        self.writer = AnswerWriter(store, bridge, self)
        self.writer.arrived.connect(self._text_arrived)
        self.writer.round_done.connect(self._round_done)
        self.writer.ended.connect(self._ended)
        self.writer.stored.connect(self._stored)
        self.writer.failed.connect(
            lambda event: self.problem.emit(UserFixable(event.cause, event.remedy, event.details))
        )
        self.writer.problem.connect(self.problem)
        self.conversations.changed.connect(self._listed)
        self.conversations.removed.connect(self._gone)
        self.conversations.restored.connect(lambda back: self.open(back[0]))
        self.conversations.deleted.connect(self.deleted)
        self.conversations.problem.connect(self.problem)

    @property
    def live(self) -> LiveAnswer | None:
        """The answer being written, in whichever conversation."""
        return self.writer.live

    @property
    def shows_live(self) -> bool:
        """Whether the answer being written ends the branch on show."""
        live = self.live
        return live is not None and bool(self.messages) and self.messages[-1].id == live.base.id

    @property
    def setup(self) -> ChatSetup:
        """What goes along with the messages of the conversation on show."""
        settings = self._settings.value
        return ChatSetup(temperature=settings.temperature, seed=settings.seed)

    # -- conversations ---------------------------------------------------------------------

    def open(self, conversation: Conversation | None) -> None:
        """Show a conversation; None starts a new one, which is stored with its first message."""
        messages: list[StoredMessage] = []
        if conversation is not None:
            with self._reporting():
                messages = self._branch(conversation)
        self.current, self.messages = conversation, messages
        self._remember(conversation)
        self.opened.emit(messages)
        self.changed.emit()

    def undelete(self, token: Deletion) -> None:
        """Bring back what `deleted` told of."""
        self.conversations.restore(token)

    def _listed(self, conversation: Conversation) -> None:
        """The list has a newer state of a conversation."""
        current = self.current
        if current is not None and current.id == conversation.id and current != conversation:
            self.current = conversation
            self.changed.emit()

    def _gone(self, ids: tuple[int, ...]) -> None:
        if self.live is not None and self.live.conversation.id in ids:
            self.stop()
        if self.current is not None and self.current.id in ids:
            self.open(None)

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
                self.conversations.put(conversation)
            message = self._store.add_user_message(conversation.id, text)
            self.current = conversation
            self.messages.append(message)
            self.message_added.emit(message)
            self._remember(conversation)
            self._answer(clicked_at)
            self.conversations.touch(conversation)
            taken = True
        return taken  # noqa: RET504 - the context above swallows errors

    def stop(self) -> None:
        """Stop the answer being written."""
        self.writer.stop()

    @property
    def can_continue(self) -> bool:
        """Whether the last answer shown is unfinished and can go on."""
        return self.live is None and bool(self.messages) and unfinished(self.messages[-1])

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
            self._begin(base, base.sampling, clicked_at)
            self.answer_resumed.emit(base)

    def regenerate(self) -> None:
        """Write the last answer anew, or the one that is missing after a crash."""
        if not self.can_regenerate or self.current is None:
            return
        clicked_at = time.perf_counter()
        with self._reporting():
            last = self.messages[-1]
            if last.role is Role.ASSISTANT:
                self._store.set_leaf(self.current.id, last.parent_id)
                self.messages.pop()
                self.branch_changed.emit(len(self.messages), self.messages)
            self._answer(clicked_at)

    def shut_down(self) -> None:
        """Before the history closes: save what has come; an open answer stays interrupted."""
        self.writer.shut_down()

    def _answer(self, clicked_at: float) -> None:
        """Ask for the answer to the last message."""
        if self.current is None:
            return
        setup = self.setup
        sampling = setup.sampling(secrets.randbits(32) if setup.seed is None else setup.seed)
        message = self._store.begin_answer(
            self.current.id, model=self._bridge.status.model_name, sampling=sampling
        )
        self.messages.append(message)
        self._begin(message, sampling, clicked_at)
        self.message_added.emit(message)

    def _begin(self, base: StoredMessage, sampling: SamplingParams, clicked_at: float) -> None:
        if self.current is None:
            return
        request = chat_request(
            self.writer.next_id(base), self.messages, self.setup, sampling, clicked_at
        )
        self.asked.emit(clicked_at)
        self.writer.begin(self.current, base, request)
        self.changed.emit()

    # -- what the writer tells -------------------------------------------------------------

    def _text_arrived(self, event: TextDelta) -> None:
        own = [span.start for span in event.spans if span.origin is Origin.TARGET]
        self._own_token_at = own[-1] if own else self._own_token_at
        if self.shows_live:
            self.live_text.emit(event.text)
            self.live_spans.emit(event.spans)

    def _round_done(self, event: RoundFinished) -> None:
        """What the draft had instead of the target's own token, the last one of a round."""
        if event.rejected and self.shows_live:
            self.live_ghost.emit(max(self._own_token_at, event.text_start), event.rejected)

    def _ended(self, live: LiveAnswer, message: StoredMessage) -> None:
        self.conversations.touch(live.conversation)
        if self.messages and self.messages[-1].id == live.base.id:
            self.messages[-1] = message
            self.answer_finished.emit(message)

    def _stored(self) -> None:
        self.changed.emit()

    # -- inside ----------------------------------------------------------------------------

    def _branch(self, conversation: Conversation) -> list[StoredMessage]:
        """The messages on the active branch, an answer in progress with all that has come."""
        messages = self._store.messages(conversation.id)
        live = self.live
        if live is not None and messages and messages[-1].id == live.base.id:
            messages[-1] = live.message
        return messages

    def _remember(self, conversation: Conversation | None) -> None:
        """Save at once what is open: after a power cut the next start shows it again."""
        self._settings.change(last_conversation=conversation.id if conversation else None)
        self._settings.flush()

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """Tell the user of trouble with the history instead of failing."""
        try:
            yield
        except UserFixable as error:
            self.problem.emit(error)
