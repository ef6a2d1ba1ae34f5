"""The conversation in hand: which one is open, what the user wants of it. No widgets in here."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.engine_link.bridge import EngineBridge
from app.engine_link.status import Phase
from app.history import (
    AnswerState,
    ChatSetup,
    Conversation,
    HistoryStore,
    StoredMessage,
    UndoToken,
)
from app.notices import Notice, report, reporting, withdraw
from app.session.answer_writer import AnswerWriter
from app.session.branch import Branch
from app.session.conversation_list import ConversationList, Deletion
from app.session.live_answer import LiveAnswer
from app.session.message_drafts import MessageDrafts
from app.session.open_conversation import OpenConversation
from app.session.request import chat_request, unfinished
from app.session.titles import title_of
from app.session.variation import asks_the_same, draws_the_same, varied
from app.settings import SettingsStore
from app.signals import TypedSignal
from engine.errors import UserFixable
from engine.events import Failed, FailureKind
from engine.language import tr, tr_count
from engine.model.bundled import is_starter
from engine.request import Role, SamplingParams, ToolChoice


class ChatSession(QObject):
    """Joins history, engine and views. One answer is written at a time.

    Trouble with the history never stops an answer; all of it gets there later.
    """

    opened = TypedSignal[list[StoredMessage]]()
    """The messages of the conversation that is now shown."""
    branch_changed = TypedSignal[int, list[StoredMessage]]()
    """Index of the first message that is another one now, and all messages."""
    message_added = TypedSignal[StoredMessage]()
    answer_resumed = TypedSignal[StoredMessage]()
    """An answer of the conversation shown is going on."""
    answer_finished = TypedSignal[StoredMessage]()
    changed = Signal()
    """Another conversation, title or setup is on show, or an answer begins or ends."""
    asked = Signal(float)
    """The moment when the user asked for the answer that begins now, on the events' clock."""
    context_full = TypedSignal[int | None]()
    """Tokens that were needed; None where an answer filled the context."""
    began = Signal(str, int)
    """A request to the engine, and the message that it writes."""
    deleted = TypedSignal[str, Deletion | UndoToken]()
    """A sentence on what was deleted, and the token for `undelete`."""
    undeleted = TypedSignal[Deletion | UndoToken]()
    """The messages that `deleted` told of are there again."""
    stopping = Signal()
    """Whatever is done for an answer shall end."""
    result_changed = TypedSignal[StoredMessage]()
    """A tool call has come further."""
    ending = Signal()
    """The window closes: what is unsent must be kept now."""

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
        self.drafting = True
        """True if the next answers are drafted for."""
        self.offers: Callable[[], ToolChoice] = ToolChoice
        """Returns the tools that answers of the conversation on show may call."""
        self.calling = False
        """True while a tool runs that an answer has called; an answer follows it."""
        self.conversations = ConversationList(store, self)
        self._failure: Notice | None = None
        """The failure of the last answer."""
        self._undoable: list[Deletion | UndoToken] = []
        self._settings = settings
        self._open = OpenConversation(store, settings, self.conversations, self._new_setup, self)
        self._setups: dict[int, ChatSetup] = {}
        """Setups that answers of this run were asked for with."""
        self.drafts = MessageDrafts(store.path.parent / "drafts" if store.kept else None, self)
        self.writer = AnswerWriter(store, bridge, self)
        self.branch = Branch(store, self.writer.completed, self)
        self._connect()

    def _connect(self) -> None:
        self.branch.changed.connect(self.branch_changed)
        self.branch.added.connect(self.message_added)
        self.writer.stored.connect(self._stored)
        self.writer.failed.connect(self._failed)
        self.conversations.refreshed.connect(self._tidy_drafts)
        self._open.changed.connect(self.changed)
        self.conversations.removed.connect(self._gone)
        self.conversations.restored.connect(lambda back: self.open(back[0]))
        self.conversations.deleted.connect(self._deleted)

    @property
    def current(self) -> Conversation | None:
        """The conversation on show; None for a chat that has not begun."""
        return self._open.current

    @property
    def messages(self) -> list[StoredMessage]:
        """The messages on show."""
        return self.branch.messages

    @property
    def live(self) -> LiveAnswer | None:
        """The answer being written, in whichever conversation."""
        return self.writer.live

    @property
    def busy(self) -> bool:
        """True while an answer is written, or a tool runs for one."""
        return self.live is not None or self.calling

    @property
    def shows_live(self) -> bool:
        """True if the answer being written ends the branch on show."""
        return self.branch.ends_with(self.live)

    @property
    def setup(self) -> ChatSetup:
        """Return the setup of the conversation on show."""
        return self._open.setup

    @property
    def sent_setup(self) -> ChatSetup:
        """Return the setup as requests need it, with the user's custom instructions."""
        return self._open.sent_setup

    # -- conversations ---------------------------------------------------------------------

    def open(self, conversation: Conversation | None) -> None:
        """Show a conversation; None starts a new one, which is stored with its first message."""
        with reporting():
            try:
                self.branch.read(conversation, self.live)
            except UserFixable:
                self.branch.messages = []
                raise
        self._open.show(conversation)
        self._leave_failure()
        self.opened.emit(self.messages)
        self.changed.emit()

    def set_setup(self, setup: ChatSetup) -> None:
        """Let answers be drawn like this from now on."""
        with reporting():
            self._open.set_setup(setup)

    def undelete(self, token: Deletion | UndoToken) -> None:
        """Bring back what `deleted` told of, and show it."""
        self.undeleted.emit(token)
        if token in self._undoable:
            self._undoable.remove(token)
        if isinstance(token, Deletion):
            self.conversations.restore(token)
            return
        if token.message_id is None:
            self.conversations.bring_back(token)
            return
        with reporting():
            self._store.trash.undelete(token)
            if self._open.is_any_of((token.conversation_id,)):
                self._show_again()
            elif (conversation := self.conversations.get(token.conversation_id)) is not None:
                self.open(conversation)

    def undo_deletion(self) -> None:
        """Take back the last deletion of this run that was not taken back yet."""
        if self._undoable:
            self.undelete(self._undoable[-1])

    def _deleted(self, words: str, token: Deletion | UndoToken) -> None:
        self._undoable.append(token)
        self.deleted.emit(words, token)

    def _gone(self, ids: tuple[int, ...]) -> None:
        if self.live is not None and self.live.conversation.id in ids:
            self.stop()
        if self._open.is_any_of(ids):
            self.open(None)

    # -- what is said ----------------------------------------------------------------------

    def send(self, text: str) -> bool:
        """Send a message; whether it was taken."""
        if not text.strip() or self.busy:
            return False
        clicked_at = time.perf_counter()
        taken = False
        with reporting():
            conversation = self.current
            if conversation is None:
                conversation = self._open.begin(title_of(text))
            self.branch.say(conversation, text)
            taken = True
            self._open.remember()
            self._answer(conversation, clicked_at)
        return taken

    def edit(self, message_id: int, text: str) -> bool:
        """Say something else in place of a message; the old branch stays. Whether it was taken."""
        conversation, index = self.current, self.branch.index(message_id)
        if conversation is None or index is None or not text.strip() or self._is_busy():
            return False
        clicked_at = time.perf_counter()
        taken = False
        with reporting():
            old = self.messages[index].text
            self.branch.cut(conversation, index)
            self.branch.say(conversation, text)
            taken = True
            if index == 0 and conversation.title == title_of(old):  # nobody has renamed it
                self.conversations.rename(conversation.id, title_of(text))
            self._answer(conversation, clicked_at)
        return taken

    def delete_message(self, message_id: int) -> None:
        """Delete a message and what follows it; `deleted` says how to take it back."""
        index = self.branch.index(message_id)
        if index is None:
            return
        if self.shows_live:
            self.stop()
        with reporting():
            count = len(self.messages) - index
            token = self.branch.delete(message_id)
            self._show_again()
            words = tr_count("The message was deleted.", "{n} messages were deleted.", count)
            self._deleted(words, token)

    def show_version(self, message_id: int, step: int) -> None:
        """Show the version `step` places on, with what followed it."""
        with reporting():
            self.branch.step(message_id, step)
            self._show_again()

    def show_message(self, message_id: int) -> None:
        """Show the branch that a message is on."""
        if self.branch.index(message_id) is None:
            with reporting():
                self.branch.go_to(message_id)
                self._show_again()

    # -- answers ---------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop the answer being written, and the tool that runs for it."""
        self.stopping.emit()
        self.writer.stop()

    # -- tools -----------------------------------------------------------------------------

    def set_calling(self, *, calling: bool) -> None:
        """A tool begins to run for an answer, or has ended."""
        if calling is not self.calling:
            self.calling = calling
            self.changed.emit()

    def answer_results(self) -> None:
        """Have the model go on with the results that end the branch."""
        conversation = self.current
        if conversation is None or self.live is not None or self._lacks_model():
            return
        with reporting():
            self._answer(conversation, time.perf_counter())

    @property
    def can_continue(self) -> bool:
        """True if the last answer shown is unfinished and can go on."""
        return self.live is None and bool(self.messages) and unfinished(self.messages[-1])

    @property
    def is_full(self) -> bool:
        """True if the last answer shown ended because the context was full."""
        return bool(self.messages) and self.messages[-1].state is AnswerState.FULL

    def continue_answer(self, *, made_room: bool = False) -> None:
        """Go on with the last answer from where it stopped, with its own seed.

        For one that filled the context the user has to make room first.
        """
        full = self.is_full and self.live is None
        if full and not made_room:
            self.context_full.emit(None)
            return
        if self.current is None or not (self.can_continue or full) or self._lacks_model():
            return
        clicked_at = time.perf_counter()
        base = self.messages[-1]
        with reporting():
            self.writer.saving.require()
            self._store.answers.resume(base.id)
            self._begin(self.current, base, base.sampling, clicked_at)
            self.answer_resumed.emit(base)

    def duplicate(self, message_id: int | None = None) -> None:
        """Go on in a copy of this chat: whole, or up to a message of it."""
        if self.current is None or self._is_busy():
            return
        made = self.conversations.duplicate(self.current, message_id)
        if made is not None:
            self.open(made)

    def edit_answer(self, message_id: int, text: str) -> None:
        """Put a version with another text beside an answer; the model goes on from that one."""
        conversation, index = self.current, self.branch.index(message_id)
        if conversation is None or index is None or self._is_busy():
            return
        answer = self.messages[index]
        with reporting():
            self.branch.cut(conversation, index)
            made = self._store.answers.begin(
                conversation.id, model=answer.model, sampling=answer.sampling, varied=False
            )
            self._store.answers.finish(
                made.id,
                text=text,
                token_ids=None,
                marks=None,
                state=AnswerState.COMPLETE,
                stats=None,
                signature="",
            )
            self._show_again()
            self.conversations.touch(conversation)

    def vary(self, message_id: int) -> None:
        """Answer anew with more variation than the setup asks for."""
        self.regenerate(message_id, vary=True)

    def regenerate(self, message_id: int | None = None, *, vary: bool = False) -> None:
        """Answer anew: a new version beside this answer, or beside the last one.

        Where the same text would come again it is drawn with another seed, and a temperature.
        A question that was left without an answer, after a crash, gets one.
        """
        conversation, index = self.current, self.branch.index(message_id)
        if conversation is None or index is None or self._is_busy() or self._lacks_model():
            return
        clicked_at = time.perf_counter()
        with reporting():
            if self.messages[index].role is not Role.ASSISTANT:
                index += 1
            sampling = None
            if index < len(self.messages):
                sampling = self._varied(self.messages[index], vary=vary)
                self.branch.cut(conversation, index)
            self._answer(conversation, clicked_at, sampling)

    def _varied(self, answer: StoredMessage, *, vary: bool) -> SamplingParams | None:
        """The sampling of a new version of an answer; None for what the setup says."""
        if not vary and not self._comes_again(answer):
            return None
        return varied(self.setup.sampling(0), secrets.randbits(32), stronger=vary)

    def _comes_again(self, answer: StoredMessage) -> bool:
        """Return whether the setup would give a text that is there already."""
        setup, status = self.setup, self._bridge.status
        wanted = setup.sampling(setup.seed or 0)
        if setup.seed is None and not wanted.greedy:
            return False
        signature = "" if status.plan is None else status.plan.signature
        return any(
            asks_the_same(self._setups.get(each.id, setup), setup)
            and draws_the_same(each, wanted, status.model_name, signature)
            for each in self.branch.versions(answer.id)
        )

    def shut_down(self) -> None:
        """Save what has come before the history closes; an open answer stays interrupted."""
        self.ending.emit()
        self.drafts.close()
        self.writer.shut_down()

    def _answer(
        self,
        conversation: Conversation,
        clicked_at: float,
        variation: SamplingParams | None = None,
    ) -> None:
        """Ask for the answer to the last message, drawn as the setup says or with a variation."""
        setup, sampling = self.setup, variation
        if sampling is None:
            sampling = setup.sampling(secrets.randbits(32) if setup.seed is None else setup.seed)
        model = self._bridge.status.model_name
        message = self.branch.begin_answer(
            conversation, model, sampling, varied=variation is not None
        )
        self._setups[message.id] = setup
        self._begin(conversation, message, sampling, clicked_at)
        self.message_added.emit(message)
        self.conversations.touch(conversation)

    def _begin(
        self,
        conversation: Conversation,
        base: StoredMessage,
        sampling: SamplingParams,
        clicked_at: float,
    ) -> None:
        request_id = self.writer.next_id(base)
        request = chat_request(
            request_id, self.messages, self.sent_setup, sampling, clicked_at, self.offers()
        )
        request = replace(
            request,
            drafting=self.drafting,
            # Whoever lets an answer go on that repeats itself wants to see what comes.
            stop_repetition=self._settings.value.stop_repetition
            and base.state is not AnswerState.REPEATED,
        )
        self._leave_failure()
        self.asked.emit(clicked_at)
        self.began.emit(request_id, base.id)
        live = self.writer.begin(conversation, base, request)
        live.ended.connect(self._ended)
        self.changed.emit()

    # -- what the writer tells -------------------------------------------------------------

    def _failed(self, event: Failed) -> None:
        if event.kind is FailureKind.CONTEXT_FULL and self.shows_live:
            self.context_full.emit(event.needed)
        else:
            self._failure = report(UserFixable(event.cause, event.remedy, event.details))

    def _ended(self, message: StoredMessage) -> None:
        if self.messages and self.messages[-1].id == message.id:
            self.branch.replace_last(message)
            self.answer_finished.emit(message)

    def _stored(self, conversation: Conversation) -> None:
        self.conversations.touch(conversation)
        self.changed.emit()
        if self.is_full and self._open.is_any_of((conversation.id,)):
            self.context_full.emit(None)

    # -- inside ----------------------------------------------------------------------------

    def _show_again(self) -> None:
        if self.current is not None:
            self.branch.show_again(self.current, self.live)
            self.changed.emit()

    def _new_setup(self) -> ChatSetup:
        """The setup of a new conversation with the model that answers, or soon will."""
        status = self._bridge.status
        plan = None if status.phase is Phase.LOADING else status.plan
        model = self._settings.value.model if status.wanted is None else status.wanted.model
        elsewhere = plan is not None and plan.host != ""
        return self._settings.value.new_setup(
            starter=not elsewhere and (not model or is_starter(Path(model))),
            recommended=None if plan is None else plan.sampling,
        )

    def _leave_failure(self) -> None:
        """A failure stays with its answer: the answer says it, wherever one goes."""
        withdraw(self._failure)
        self._failure = None

    def _is_busy(self) -> bool:
        """One answer is written at a time; says so while there is one."""
        if self.busy:
            remedy = tr("Stop it, or wait until it is finished.")
            report(UserFixable(tr("An answer is being written."), remedy))
        return self.busy

    def _lacks_model(self) -> bool:
        """An answer needs a model; says so where there is none, and changes nothing."""
        lacks = self._bridge.status.phase in {Phase.NO_MODEL, Phase.BROKEN}
        if lacks:
            report(UserFixable(tr("No model is loaded."), tr("Load one, then try again.")))
        return lacks

    def _tidy_drafts(self) -> None:
        """Forget what was unsent in conversations that are gone for good: not in the trash."""
        here = [each.id for each in self.conversations.newest_first()]
        with reporting():
            self.drafts.keep_only([*here, *self._store.trash.conversation_ids()])
