"""The rounds and tokens of an answer as they are kept: typed columns, compressed, with a version.

What is damaged, far too large or from a newer Duotail is no recording, and never an error.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, repeat
from typing import TypeVar

from app.history.typed_columns import ColumnReader, Damaged, pack_column, pack_texts, steps
from engine.events import Guess, Interval, Origin, RoundFinished, TokenSpan

T = TypeVar("T")

MAGIC = b"DTR\x01"
"""The last byte is the version."""
MOST_ROUNDS = 24_000
MOST_TOKENS = 200_000
"""Most tokens of an answer whose rounds are kept."""
_MOST_NUMBERS = 2_000_000
_MOST_INFLATED = 1 << 26
_MICRO = 1_000_000
_SURE = 65_534
_UNKNOWN = -1
_LEVEL = 6


@dataclass(frozen=True, slots=True)
class RoundRecording:
    """Rounds of one request that wrote an answer or continued it.

    Times count from the beginning of the first round.

    Attributes:
        spans: every token that was told, with its place in the whole answer.
        told: how many of them came with each round.
    """

    rounds: tuple[RoundFinished, ...]
    spans: tuple[TokenSpan, ...]
    told: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.told) != len(self.rounds) or sum(self.told) > len(self.spans):
            raise ValueError("rounds and tokens do not belong together")

    @property
    def keepable(self) -> bool:
        """True if there is anything to keep, and not too much."""
        return 0 < len(self.rounds) <= MOST_ROUNDS and len(self.spans) <= MOST_TOKENS


def pack(recording: RoundRecording) -> bytes:
    """A recording for `unpack`, times to the microsecond. Some ms for 2,000 rounds."""
    return MAGIC + zlib.compress(b"".join(_columns(recording)), _LEVEL)


def unpack(packed: bytes) -> RoundRecording | None:
    """Return what `pack` was given, or None for anything else."""
    if not packed.startswith(MAGIC):
        return None
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(packed[len(MAGIC) :], _MOST_INFLATED)
        if not inflater.eof or inflater.unused_data:
            return None
        return _read(ColumnReader(data, _MOST_NUMBERS))
    except (ValueError, zlib.error, OverflowError, MemoryError):
        return None


def joined(recordings: Sequence[RoundRecording]) -> RoundRecording | None:
    """One recording of an answer that was written in several goes; the pauses are left out."""
    if not recordings:
        return None
    rounds: list[RoundFinished] = []
    spans: list[TokenSpan] = []
    told: list[int] = []
    for each in recordings:
        until = max((_end(done) for done in rounds[-2:]), default=0.0)
        # What no round told came with the end of its go; it must not move to the next one's rounds.
        told[-1:] = [told[-1] + len(spans) - sum(told)] if told else []
        for done in each.rounds:
            rounds.append(_moved(done, until, len(rounds)))
        spans += each.spans
        told += each.told
    return RoundRecording(tuple(rounds), tuple(spans), tuple(told))


def _end(done: RoundFinished) -> float:
    return max(done.at, done.verify.end)


def _moved(done: RoundFinished, seconds: float, index: int) -> RoundFinished:
    def shifted(works: Iterable[Interval]) -> tuple[Interval, ...]:
        return tuple(Interval(each.start + seconds, each.end + seconds) for each in works)

    return replace(
        done,
        at=done.at + seconds,
        index=index,
        drafting=shifted(done.drafting),
        verify=shifted((done.verify,))[0],
        transfers=shifted(done.transfers),
    )


# -- writing -------------------------------------------------------------------------------


def _columns(recording: RoundRecording) -> Iterable[bytes]:
    rounds, spans = recording.rounds, recording.spans
    begin = min(
        (
            min([done.verify.start, *(work.start for work in done.drafting[:1])])
            for done in rounds[:2]
        ),
        default=0.0,
    )
    starts = [_micro(done.verify.start - begin) for done in rounds]
    yield pack_column([len(rounds), len(spans)])
    yield pack_column(steps(done.index for done in rounds))
    yield pack_column(steps(starts))
    yield pack_column([_micro(done.verify.seconds) for done in rounds])
    yield pack_column([_micro(done.at - done.verify.end) for done in rounds])
    yield pack_column([done.drafted for done in rounds])
    yield pack_column([done.accepted for done in rounds])
    yield pack_column([done.committed for done in rounds])
    yield pack_column(steps(done.context_used for done in rounds))
    yield pack_column(steps(done.text_start for done in rounds))
    yield pack_column([done.text_end - done.text_start for done in rounds])
    yield pack_column([done.rejected_at - done.text_start for done in rounds])
    yield pack_column([_micro(done.useful_s) for done in rounds])
    yield pack_column([_micro(done.wasted_s) for done in rounds])
    yield pack_texts([done.rejected for done in rounds])
    yield pack_column(recording.told)
    for works in ([done.drafting for done in rounds], [done.transfers for done in rounds]):
        yield pack_column([len(each) for each in works])
        yield pack_column(
            [
                _micro(work.start - done.verify.start)
                for done, each in zip(rounds, works, strict=True)
                for work in each
            ]
        )
        yield pack_column([_micro(work.seconds) for each in works for work in each])
    for depths in (
        [done.drafted_by_depth for done in rounds],
        [done.accepted_by_depth for done in rounds],
    ):
        yield pack_column([len(each) for each in depths])
        yield pack_column(list(chain.from_iterable(depths)))
    yield pack_column([len(done.guesses) for done in rounds])
    guesses = [guess for done in rounds for guess in done.guesses]
    yield pack_texts([guess.text for guess in guesses])
    yield pack_column([_share(guess.draft_probability) for guess in guesses])
    yield pack_column([_share(guess.probability) for guess in guesses])
    yield pack_column([guess.accepted for guess in guesses])
    yield pack_column([span.token_id for span in spans])
    yield pack_column(steps(span.start for span in spans))
    yield pack_column([span.end - span.start for span in spans])
    yield pack_column([span.origin is Origin.DRAFTED for span in spans])
    yield pack_column([_share(span.probability) for span in spans])


def _micro(seconds: float) -> int:
    return round(seconds * _MICRO)


def _share(probability: float | None) -> int:
    return _UNKNOWN if probability is None else round(min(max(probability, 0.0), 1.0) * _SURE)


# -- reading -------------------------------------------------------------------------------


def _read(columns: ColumnReader) -> RoundRecording:
    count, tokens = columns.naturals(2)
    if count > MOST_ROUNDS or tokens > MOST_TOKENS:
        raise Damaged
    rounds, told = _read_rounds(columns, count)
    spans = _read_spans(columns, tokens)
    columns.end()
    return RoundRecording(tuple(rounds), tuple(spans), tuple(told))


def _read_rounds(columns: ColumnReader, count: int) -> tuple[list[RoundFinished], list[int]]:
    index, verify = columns.sums(count), columns.sums(count)
    seconds, rest = columns.naturals(count), columns.numbers(count)
    drafted, accepted = columns.naturals(count), columns.naturals(count)
    committed, context = columns.naturals(count), columns.sums(count)
    start, length = columns.sums(count), columns.naturals(count)
    rejected_at = columns.numbers(count)
    useful, wasted = columns.naturals(count), columns.naturals(count)
    rejected, told = columns.texts(count), columns.naturals(count)
    drafting, transfers = _read_works(columns, verify), _read_works(columns, verify)
    offered = _dealt(columns.naturals(count), columns.naturals)
    taken = _dealt(columns.naturals(count), columns.naturals)
    guesses = _dealt(columns.naturals(count), lambda total: _read_guesses(columns, total))
    rounds = [
        RoundFinished(
            at=(verify[i] + seconds[i] + rest[i]) / _MICRO,
            request_id="",
            index=index[i],
            drafting=drafting[i],
            verify=Interval(verify[i] / _MICRO, (verify[i] + seconds[i]) / _MICRO),
            drafted=drafted[i],
            accepted=accepted[i],
            committed=committed[i],
            drafted_by_depth=offered[i],
            accepted_by_depth=taken[i],
            context_used=context[i],
            rejected=rejected[i],
            text_start=start[i],
            text_end=start[i] + length[i],
            rejected_at=start[i] + rejected_at[i],
            useful_s=useful[i] / _MICRO,
            wasted_s=wasted[i] / _MICRO,
            transfers=transfers[i],
            guesses=guesses[i],
        )
        for i in range(count)
    ]
    return rounds, told


def _read_works(columns: ColumnReader, verify: Sequence[int]) -> list[tuple[Interval, ...]]:
    """Work of each round, told from when its verification began."""
    counts = columns.naturals(len(verify))
    total = sum(counts)
    origins = chain.from_iterable(map(repeat, verify, counts))
    starts, lengths = columns.numbers(total), columns.naturals(total)
    works = [
        Interval((origin + start) / _MICRO, (origin + start + length) / _MICRO)
        for origin, start, length in zip(origins, starts, lengths, strict=True)
    ]
    return _dealt(counts, lambda _: works)


def _read_guesses(columns: ColumnReader, count: int) -> list[Guess]:
    if count > MOST_TOKENS:
        raise Damaged
    fields = zip(
        columns.texts(count),
        columns.numbers(count),
        columns.numbers(count),
        columns.naturals(count),
        strict=True,
    )
    return [Guess(text, _part(a), _part(b), bool(taken)) for text, a, b, taken in fields]


def _dealt(counts: Sequence[int], read: Callable[[int], list[T]]) -> list[tuple[T, ...]]:
    """Read all values at once and deal them out by the counts."""
    values = iter(read(sum(counts)))
    return [tuple(islice(values, count)) for count in counts]


def _read_spans(columns: ColumnReader, count: int) -> list[TokenSpan]:
    ids, starts = columns.numbers(count), columns.sums(count)
    lengths, drafted = columns.naturals(count), columns.naturals(count)
    shares = columns.numbers(count)
    if starts and min(starts) < 0:
        raise Damaged
    return [
        TokenSpan(
            ids[i],
            starts[i],
            starts[i] + lengths[i],
            Origin.DRAFTED if drafted[i] else Origin.TARGET,
            _part(shares[i]),
        )
        for i in range(count)
    ]


def _part(share: int) -> float | None:
    if not _UNKNOWN <= share <= _SURE:
        raise Damaged
    return None if share == _UNKNOWN else share / _SURE
