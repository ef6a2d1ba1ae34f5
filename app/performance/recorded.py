"""An answer that was written earlier, as the history keeps it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.history import StoredMessage
from app.history.rounds import joined, unpack
from app.performance.tokens import Units
from engine.events import Event, Finished, FinishReason, PrefillProgress, TextDelta

_BEFORE_S = 0.001
"""The prompt ends so long before the first round where nobody told how long it took."""


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """Rounds and tokens of an answer, as the history keeps them."""

    message: StoredMessage
    packed: tuple[bytes, ...]

    @property
    def request_id(self) -> str:
        """Return its name among answers; no request to the engine has it."""
        return f"kept-{self.message.id}"

    def events(self) -> list[Event]:
        """Return the events in the order they were told; none without a readable recording.

        Takes a while: for another thread.
        """
        recordings = [each for each in map(unpack, self.packed) if each is not None]
        whole = joined(recordings)
        if whole is None:
            return []
        message, request_id = self.message, self.request_id
        stats = message.stats if len(recordings) == 1 else None  # some tell of the last go only
        units, spans = Units(message.text), iter(whole.spans)
        first = whole.rounds[0]
        wait = _BEFORE_S if stats is None or stats.ttft_s is None else stats.ttft_s
        begin = min(first.at - wait, first.verify.start)
        events: list[Event] = [PrefillProgress(begin, request_id, 0, 0, 0)]
        for done, count in zip(whole.rounds, whole.told, strict=True):
            some = tuple(next(spans) for _ in range(count))
            if some:
                text = units.between(some[0].start, some[-1].end)
                events.append(TextDelta(done.at, request_id, text, some))
            events.append(replace(done, request_id=request_id))
        rest, end = tuple(spans), whole.rounds[-1].at
        if rest:
            text = units.between(rest[0].start, rest[-1].end)
            events.append(TextDelta(end, request_id, text, rest))
        if stats is not None:
            reason = FinishReason.STOP
            events.append(Finished(end, request_id, reason, message.text, None, stats))
        return events
