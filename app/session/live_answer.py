"""The answer being written, which whoever shows it observes."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from operator import attrgetter

from PySide6.QtCore import QObject

from app.history import Conversation, StoredMessage, TokenMarks
from app.history.rounds import RoundRecording
from app.signals import TypedSignal
from engine.events import RoundFinished, TextDelta, TokenSpan
from engine.request import NO_TOOLS, ToolChoice


class LiveAnswer(QObject):
    """An answer so far. `base` is the message before this request, which may continue it."""

    wrote = TypedSignal[TextDelta]()
    refused = TypedSignal[int, str]()
    """The place in the answer where the target refused a drafted continuation, and its text."""
    ended = TypedSignal[StoredMessage]()
    """The message it has become; before it is stored."""

    def __init__(
        self,
        request_id: str,
        conversation: Conversation,
        base: StoredMessage,
        tools: ToolChoice = NO_TOOLS,
    ) -> None:
        super().__init__()
        self.request_id, self.conversation, self.base = request_id, conversation, base
        self.tools = tools
        """The tools that it may call."""
        self.pieces: list[TextDelta] = []
        self.spans: list[TokenSpan] = []
        self._rounds: list[RoundFinished] = []
        self._told: list[int] = []  # spans that came with each round
        self._heard = 0  # spans that came with any round

    def take_text(self, delta: TextDelta) -> None:
        """Append text that has come."""
        self.pieces.append(delta)
        self.spans.extend(delta.spans)
        self.wrote.emit(delta)

    def take_round(self, done: RoundFinished) -> None:
        """Note a round for the replay; the text of those behind it may be there already."""
        self._rounds.append(done)
        heard = bisect_right(self.spans, done.text_end, lo=self._heard, key=attrgetter("end"))
        self._told.append(heard - self._heard)
        self._heard = heard
        if done.rejected:
            self.refused.emit(done.rejected_at, done.rejected)

    @property
    def text(self) -> str:
        """Return the text that this request has added."""
        return "".join(piece.text for piece in self.pieces)

    @property
    def recording(self) -> RoundRecording:
        """Return the rounds and tokens of the answer."""
        return RoundRecording(tuple(self._rounds), tuple(self.spans), tuple(self._told))

    @property
    def message(self) -> StoredMessage:
        """The answer as far as it has come."""
        return replace(self.base, text=self.base.text + self.text, marks=self.marks)

    @property
    def marks(self) -> TokenMarks | None:
        """Return which tokens of the answer were drafted, as far as that is known."""
        base = self.base.marks
        return None if base is None else base + TokenMarks.of(self.spans)
