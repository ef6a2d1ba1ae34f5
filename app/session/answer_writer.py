"""The one answer being written: its pieces are told, saved as they come, and closed at the end."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from operator import attrgetter

from PySide6.QtCore import QObject, QTimer, Signal

from app.engine_link.bridge import EngineBridge
from app.history import AnswerState, Conversation, HistoryStore, StoredMessage, TokenMarks
from app.history.rounds import RoundRecording
from app.session.rounds_keeper import RoundsKeeper
from engine.commands import Generate, Stop
from engine.errors import UserFixable
from engine.events import (
    Failed,
    Finished,
    FinishReason,
    RoundFinished,
    TextDelta,
    TokenSpan,
)
from engine.request import ChatRequest

_STORE_EVERY_MS = 100
"""Time between two writes, the most that a kill loses. A write blocks the window for 0.3 ms."""
_STATES = {
    FinishReason.STOPPED: AnswerState.STOPPED,
    FinishReason.ERROR: AnswerState.FAILED,
    FinishReason.CONTEXT: AnswerState.FULL,
    FinishReason.LENGTH: AnswerState.STOPPED,
    FinishReason.REPETITION: AnswerState.REPEATED,
}


@dataclass(slots=True)
class LiveAnswer:
    """The answer being written. `base` is what it had before this request (when continued)."""

    request_id: str
    conversation: Conversation
    base: StoredMessage
    text: list[str] = field(default_factory=list)
    unsaved_text: list[str] = field(default_factory=list)
    spans: list[TokenSpan] = field(default_factory=list)
    saved: int = 0
    """Number of spans that the history has."""
    saving: bool = True
    rounds: list[RoundFinished] = field(default_factory=list)
    told: list[int] = field(default_factory=list)
    """Number of spans that came with each round."""
    heard: int = 0
    """Number of spans that came with any round."""

    def take_round(self, done: RoundFinished) -> None:
        """Note a round for the replay; the text of those behind it may be there already."""
        self.rounds.append(done)
        heard = bisect_right(self.spans, done.text_end, lo=self.heard, key=attrgetter("end"))
        self.told.append(heard - self.heard)
        self.heard = heard

    @property
    def recording(self) -> RoundRecording:
        """Return the rounds and tokens of the answer."""
        return RoundRecording(tuple(self.rounds), tuple(self.spans), tuple(self.told))

    @property
    def message(self) -> StoredMessage:
        """The answer as far as it has come."""
        return replace(self.base, text=self.base.text + "".join(self.text), marks=self.marks)

    @property
    def marks(self) -> TokenMarks | None:
        """Return which tokens of the answer were drafted, as far as that is known."""
        base = self.base.marks
        return None if base is None else base + TokenMarks.of(self.spans)


class AnswerWriter(QObject):
    """Asks the engine for an answer and keeps what comes.

    Trouble with the history never stops an answer: it is told through `problem` and the text stays
    in the window.
    """

    arrived = Signal(object)
    """A `TextDelta` of the live answer."""
    refused = Signal(int, str)
    """The place in the answer where the target refused a drafted continuation, and its text."""
    ended = Signal(object, object)
    """The `LiveAnswer` that was, and the `StoredMessage` it has become; before it is stored."""
    stored = Signal(object)
    """The `Conversation` whose answer the history now holds to its end."""
    failed = Signal(object)
    """A `Failed` of the live answer; `ended` follows."""
    problem = Signal(object)
    """A `UserFixable`."""

    def __init__(
        self, store: HistoryStore, bridge: EngineBridge, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._store = store
        self._bridge = bridge
        self._counter = 0
        self.live: LiveAnswer | None = None
        self.keeper = RoundsKeeper(store, self)
        self._saver = QTimer(self)
        self._saver.setInterval(_STORE_EVERY_MS)
        self._saver.timeout.connect(self.save)
        bridge.subscribe(TextDelta, self._text_arrived)
        bridge.subscribe(RoundFinished, self._round_done)
        bridge.subscribe(Finished, self._finished)
        bridge.subscribe(Failed, self._failed)

    def next_id(self, base: StoredMessage) -> str:
        """Return an id for the next request that writes (on) this answer."""
        self._counter += 1
        return f"{base.id}-{self._counter}"

    def begin(self, conversation: Conversation, base: StoredMessage, request: ChatRequest) -> None:
        """Have the engine write `base`, or go on with it."""
        self.live = LiveAnswer(request.id, conversation, base)
        self._saver.start()
        self._bridge.submit(Generate(request))

    def stop(self) -> None:
        """Stop the answer being written."""
        if self.live is not None:
            self._bridge.submit(Stop(self.live.request_id))

    def save(self) -> None:
        """Hand what has come since the last time to the history."""
        live = self.live
        if live is None or not live.unsaved_text or not live.saving:
            return
        text, spans = "".join(live.unsaved_text), live.spans[live.saved :]
        live.saving = False  # trouble is told once, not with every piece
        try:
            ids = [span.token_id for span in spans]
            self._store.pieces.append(live.base.id, text, ids, TokenMarks.of(spans))
        except UserFixable as error:
            self.problem.emit(error)
            return
        live.unsaved_text.clear()
        live.saved += len(spans)
        live.saving = True

    def shut_down(self) -> None:
        """Save what has come before the history closes; an open answer stays interrupted."""
        self.save()
        self._saver.stop()
        self.keeper.close()

    def _mine(self, request_id: str | None) -> LiveAnswer | None:
        live = self.live
        return live if live is not None and live.request_id == request_id else None

    def _text_arrived(self, event: TextDelta) -> None:
        live = self._mine(event.request_id)
        if live is not None:
            live.text.append(event.text)
            live.unsaved_text.append(event.text)
            live.spans.extend(event.spans)
            self.arrived.emit(event)

    def _round_done(self, event: RoundFinished) -> None:
        live = self._mine(event.request_id)
        if live is None:
            return
        live.take_round(event)
        if event.rejected:
            self.refused.emit(event.rejected_at, event.rejected)

    def _failed(self, event: Failed) -> None:
        if self._mine(event.request_id) is not None:
            self.failed.emit(event)

    def _finished(self, event: Finished) -> None:
        live = self._mine(event.request_id)
        if live is None:
            return
        self.live = None
        self._saver.stop()
        message = _ended(live, event)
        self.ended.emit(live, message)
        try:
            self._store.answers.finish(
                message.id,
                text=message.text,
                token_ids=message.token_ids,
                state=message.state,
                stats=message.stats,
                signature=message.signature,
                marks=message.marks,
            )
        except UserFixable as error:
            self.problem.emit(error)
        else:
            self.keeper.keep(message.id, live.recording)
        self.stored.emit(live.conversation)


def _ended(live: LiveAnswer, event: Finished) -> StoredMessage:
    """The whole answer: what it had before, and what this request added."""
    base = live.base
    ids = None
    if event.token_ids is not None and base.token_ids is not None:
        ids = (*base.token_ids, *event.token_ids)
    return replace(
        base,
        text=base.text + event.text,
        token_ids=ids,
        state=_STATES.get(event.reason, AnswerState.COMPLETE),
        stats=event.stats if event.stats.committed else base.stats,
        signature=event.signature,
        marks=live.marks,
    )
