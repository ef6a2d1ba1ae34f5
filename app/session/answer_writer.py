"""The one answer being written: its pieces are told, saved as they come, and closed at the end."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from PySide6.QtCore import QObject, QTimer

from app.engine_link.bridge import EngineBridge
from app.history import AnswerState, Conversation, HistoryStore, StoredMessage, TokenMarks
from app.session.live_answer import LiveAnswer
from app.session.rounds_keeper import RoundsKeeper
from app.session.saving import Saving
from app.signals import TypedSignal
from engine.commands import Generate, Stop
from engine.events import (
    AnswerStats,
    Failed,
    Finished,
    FinishReason,
    RoundFinished,
    TextDelta,
)
from engine.language import sentences
from engine.request import ChatRequest, ToolCall, ToolChoice

_STORE_EVERY_MS = 100
"""Time between two writes, the most that a kill loses. A write blocks the window for 0.3 ms."""
_STATES = {
    FinishReason.STOPPED: AnswerState.STOPPED,
    FinishReason.ERROR: AnswerState.FAILED,
    FinishReason.CONTEXT: AnswerState.FULL,
    FinishReason.LENGTH: AnswerState.STOPPED,
    FinishReason.REPETITION: AnswerState.REPEATED,
}


class AnswerWriter(QObject):
    """Asks the engine for an answer and keeps what comes.

    Trouble with the history never stops an answer: `saving` tells of it, and all of the text gets
    there later.
    """

    stored = TypedSignal[Conversation]()
    """Its answer is in the history to its end, or will be as soon as that is possible."""
    failed = TypedSignal[Failed]()
    """The live answer fails; it ends next."""

    def __init__(
        self, store: HistoryStore, bridge: EngineBridge, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._store = store
        self._bridge = bridge
        self._counter = 0
        self.live: LiveAnswer | None = None
        self._saved = 0  # pieces of it that the history has
        self._failure = ""
        self._failures: dict[int, str] = {}
        """Why answers of this run failed."""
        self._ended: dict[int, StoredMessage] = {}
        self.saving = Saving(store, self)
        self.saving.saved.connect(lambda message_id: self._ended.pop(message_id, None))
        self.keeper = RoundsKeeper(store, self)
        self._saver = QTimer(self, interval=_STORE_EVERY_MS)
        self._saver.timeout.connect(self.save)
        bridge.subscribe(TextDelta, self._text_arrived)
        bridge.subscribe(RoundFinished, self._round_done)
        bridge.subscribe(Finished, self._finished)
        bridge.subscribe(Failed, self._failed)

    def completed(self, messages: list[StoredMessage]) -> list[StoredMessage]:
        """Return stored messages, with the answers of which the end is not stored yet."""
        if not self._ended and not self._failures:
            return messages
        return [self._completed(each) for each in messages]

    def _completed(self, message: StoredMessage) -> StoredMessage:
        if message.id in self._ended:
            known = self._ended[message.id]
            return replace(known, version=message.version, versions=message.versions)
        failure = self._failures.get(message.id, "")
        return replace(message, failure=failure) if failure else message

    def next_id(self, base: StoredMessage) -> str:
        """Return an id for the next request that writes (on) this answer."""
        self._counter += 1
        return f"{base.id}-{self._counter}"

    def begin(
        self, conversation: Conversation, base: StoredMessage, request: ChatRequest
    ) -> LiveAnswer:
        """Have the engine write `base`, or go on with it."""
        self.live = live = LiveAnswer(request.id, conversation, base, request.tools)
        self._saved = 0
        self._saver.start()
        self._bridge.submit(Generate(request))
        return live

    def stop(self) -> None:
        """Stop the answer being written."""
        if self.live is not None:
            self._bridge.submit(Stop(self.live.request_id))

    def save(self) -> None:
        """Hand what has come since the last time to the history."""
        live = self.live
        if live is not None and len(live.pieces) > self._saved:
            self.saving.write(live.base.id, partial(self._append, live))

    def _append(self, live: LiveAnswer) -> None:
        new = live.pieces[self._saved :]
        spans = [span for piece in new for span in piece.spans]
        ids = [span.token_id for span in spans]
        text = "".join(piece.text for piece in new)
        self._store.pieces.append(live.base.id, text, ids, TokenMarks.of(spans))
        self._saved += len(new)

    def shut_down(self) -> None:
        """Save what has come before the history closes; an open answer stays interrupted."""
        self.save()
        self.saving.close()
        self._saver.stop()
        self.keeper.close()

    def _mine(self, request_id: str | None) -> LiveAnswer | None:
        live = self.live
        return live if live is not None and live.request_id == request_id else None

    def _text_arrived(self, event: TextDelta) -> None:
        live = self._mine(event.request_id)
        if live is not None:
            live.take_text(event)

    def _round_done(self, event: RoundFinished) -> None:
        live = self._mine(event.request_id)
        if live is not None:
            live.take_round(event)

    def _failed(self, event: Failed) -> None:
        if self._mine(event.request_id) is not None:
            self._failure = sentences(event.cause, event.remedy)
            self.failed.emit(event)

    def _finished(self, event: Finished) -> None:
        live = self._mine(event.request_id)
        if live is None:
            return
        self.live = None
        self._saver.stop()
        message = _ended(live, event, self._failure)
        if self._failure:
            self._failures[message.id], self._failure = self._failure, ""
        live.ended.emit(message)
        self._ended[message.id] = message
        self.saving.write(message.id, partial(self._finish, message, live))
        self.stored.emit(live.conversation)

    def _finish(self, message: StoredMessage, live: LiveAnswer) -> None:
        self._store.answers.finish(
            message.id,
            text=message.text,
            token_ids=message.token_ids,
            state=message.state,
            stats=message.stats,
            signature=message.signature,
            marks=message.marks,
            calls=message.calls,
        )
        self.keeper.keep(message.id, live.recording)


def _ended(live: LiveAnswer, event: Finished, failure: str) -> StoredMessage:
    """The whole answer: what it had before, and what this request added."""
    base = live.base
    ids = None
    if event.token_ids is not None and base.token_ids is not None:
        ids = (*base.token_ids, *event.token_ids)
    state = _STATES.get(event.reason, AnswerState.COMPLETE)
    if state is AnswerState.FAILED and base.text and not event.text:
        state = base.state  # going on failed, the answer itself did not
    text = base.text + event.text
    return replace(
        base,
        text=text,
        token_ids=ids,
        state=state,
        failure=failure,
        stats=_stats(base, event.stats),
        signature=event.signature,
        marks=live.marks,
        calls=_calls(text, live.tools) if state is AnswerState.COMPLETE else (),
    )


def _stats(base: StoredMessage, added: AnswerStats) -> AnswerStats | None:
    """Return what the whole answer took; of one that was cut short only its tokens are known."""
    if not added.committed:
        return base.stats
    if base.stats is None:
        return replace(added, committed=len(base.token_ids or ()) + added.committed)
    return base.stats.followed_by(added)


def _calls(text: str, tools: ToolChoice) -> tuple[ToolCall, ...]:
    """Return the tool calls that an answer asks for."""
    if not tools.tools:
        return ()
    from app.session.calls import calls_in  # most answers call nothing

    return calls_in(text, tools)
