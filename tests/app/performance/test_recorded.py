"""A kept answer, told again: the same rounds, tokens and numbers as when it was written."""

from __future__ import annotations

from dataclasses import replace

from scripted_tokens import ended, model_of, told

from app.history import StoredMessage
from app.history.rounds import RoundRecording, pack
from app.performance.model import PerformanceModel
from app.performance.recorded import RecordedAnswer
from engine.events import Event, Finished, RoundFinished, TextDelta, TokenSpan
from engine.model.text.kinds_of_text import TextKind
from engine.request import Role

ROUNDS = [["Sure", ":\n"], ["```\n", "x🍊", "\n"], ["```\n"], ["It", " is", " done"]]
REJECTED = ["", " y", "", ""]
TEXT = "".join(piece for pieces in ROUNDS for piece in pieces)


def recording_of(events: list[Event]) -> RoundRecording:
    rounds = tuple(each for each in events if isinstance(each, RoundFinished))
    deltas = [each for each in events if isinstance(each, TextDelta)]
    spans = tuple(span for delta in deltas for span in delta.spans)
    return RoundRecording(rounds, spans, tuple(len(delta.spans) for delta in deltas))


def message(text: str = TEXT, *, finished: bool = True) -> StoredMessage:
    stats = ended(9).stats if finished else None
    return StoredMessage(5, Role.ASSISTANT, text, stats=stats, model="M", created_at=1.0)


def replayed(answer: RecordedAnswer) -> PerformanceModel:
    return model_of(iter(answer.events()))


def test_what_was_live_comes_again() -> None:
    events = list(told(ROUNDS, rejected=REJECTED, guesses=True))
    live = model_of(iter([*events, ended(9)]))
    again = replayed(RecordedAnswer(message(), (pack(recording_of(events)),)))
    assert [
        [(token.text, token.fate) for token in each.tokens()]
        for each in again.written.tokens.rounds
    ] == [
        [(token.text, token.fate) for token in each.tokens()] for each in live.written.tokens.rounds
    ]
    assert again.tally is not None
    assert live.tally is not None
    assert again.tally.stats == live.tally.stats
    assert again.timeline.shares is not None
    assert live.timeline.shares is not None
    assert abs(again.timeline.shares.draft - live.timeline.shares.draft) < 1e-3
    assert again.written.kinds.counts == live.written.kinds.counts
    assert again.written.kinds.counts[TextKind.CODE].tokens == 4
    assert not any(lane.series[0].last is not None for lane in again.lanes[2:])


def test_an_answer_of_several_goes_counts_its_own_rounds() -> None:
    first = list(told(ROUNDS[:2]))
    start = len("".join(piece for pieces in ROUNDS[:2] for piece in pieces)) + 1  # 🍊 is two units
    second = list(told(ROUNDS[2:], start=start))
    packed = tuple(pack(recording_of(events)) for events in (first, second))
    answer = RecordedAnswer(message(), packed)
    assert not any(isinstance(event, Finished) for event in answer.events())
    model = replayed(answer)
    assert "".join(each.text for each in model.written.tokens.rounds) == TEXT
    assert model.tally is not None
    assert model.tally.committed == 9
    ends = [done.verify.end for done in model.timeline.rounds]
    assert ends == sorted(ends)


def test_the_tail_that_came_with_the_end_is_there() -> None:
    recording = recording_of(list(told([["a"], ["b"]])))
    tail = TokenSpan(9, 2, 4, recording.spans[0].origin)
    longer = replace(recording, spans=(*recording.spans, tail))
    model = replayed(RecordedAnswer(message("abcd"), (pack(longer),)))
    assert model.written.tokens.rounds[-1].text == "bcd"


def test_nothing_readable_is_no_event() -> None:
    assert RecordedAnswer(message(), ()).events() == []
    assert RecordedAnswer(message(), (b"DTR\x09newer", b"")).events() == []
