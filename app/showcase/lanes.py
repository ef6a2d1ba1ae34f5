"""A scripted answer of DuoDecoding: the draft works ahead while the target verifies.

Its numbers are invented; only pictures and tests show them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle

from app.performance.tally import AnswerTally
from app.showcase.script import FIRST_ID, spans_of, stats, words
from engine.commands import Mode
from engine.events import AnswerStats, Interval, RoundFinished, TextDelta

_DRAFTED = 5
_WRITTEN = (5, 6, 2, 5, 4, 1, 6, 3, 5)
"""Tokens of the rounds, again and again."""
_FEW = 3
"""Most tokens of a round in which the draft was wrong, and begins anew."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """A round's times, in milliseconds from the end of the round before."""

    verify: tuple[float, float]
    drafting: tuple[tuple[float, float], ...]


_HIT = _Turn((0.8, 52.8), ((0.4, 22.9), (28.9, 43.9)))
_MISS = _Turn((16.2, 68.2), ((0.4, 30.4), (36.4, 51.4), (60.0, 67.5)))
"""Turn in which nothing is drafted behind the right token yet: the target waits for two steps."""


def rounds(request_id: str, text: str, started: float) -> Iterator[tuple[TextDelta, RoundFinished]]:
    """The rounds that write `text` from `started` on, in seconds on the events' clock."""
    pieces = words(text)
    first = offset = 0
    since, hit = started, True
    for index, size in enumerate(cycle(_WRITTEN)):
        piece = pieces[first : first + size]
        if not piece:
            return
        done = _round(request_id, index, _HIT if hit else _MISS, since, len(piece))
        written = tuple(spans_of(piece, FIRST_ID + first, offset))
        start, offset = offset, written[-1].end
        yield (
            TextDelta(done.at, request_id, "".join(piece), written),
            replace(done, text_start=start, text_end=offset, context_used=24 + first),
        )
        first, since, hit = first + size, done.at, size > _FEW


def answer_stats(tokens: int, done: Sequence[RoundFinished]) -> AnswerStats:
    """Statistics that go with those rounds."""
    seconds = done[-1].at - done[0].at
    counts = AnswerTally("")
    for each in done:
        counts.add(each)
    return replace(
        stats(tokens),
        mode=Mode.DUO,
        tokens_per_s=counts.tokens_per_s,
        acceptance_length=counts.acceptance_length,
        rounds=counts.rounds,
        drafted=counts.drafted,
        accepted=counts.accepted,
        drafted_by_depth=tuple(counts.drafted_by_depth),
        accepted_by_depth=tuple(counts.accepted_by_depth),
        decode_seconds=seconds,
        draft_seconds=sum(each.drafting_s for each in done[1:]),
        verify_seconds=sum(each.verify.seconds for each in done[1:]),
        useful_seconds=sum(each.useful_s for each in done[1:]),
        wasted_seconds=sum(each.wasted_s for each in done[1:]),
    )


def _round(request_id: str, index: int, turn: _Turn, since: float, committed: int) -> RoundFinished:
    accepted = committed - 1
    verify = Interval(*(since + each / 1000 for each in turn.verify))
    drafting = [Interval(since + start / 1000, since + end / 1000) for start, end in turn.drafting]
    seconds = sum(each.seconds for each in drafting)
    return RoundFinished(
        at=verify.end + 0.0006,
        request_id=request_id,
        index=index,
        drafting=tuple(drafting),
        verify=verify,
        drafted=_DRAFTED,
        accepted=accepted,
        committed=committed,
        drafted_by_depth=(1,) * min(accepted + 1, _DRAFTED),
        accepted_by_depth=(1,) * accepted,
        rejected="perhaps another" if accepted < _DRAFTED else "",
        useful_s=seconds * accepted / _DRAFTED,
        wasted_s=seconds * 0.9 * (1 - accepted / _DRAFTED),
    )
