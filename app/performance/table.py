"""The numbers behind a picture, as rows of texts. No Qt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar, overload

from app.performance import wording
from app.performance.model import GraphModel
from app.performance.tally import AnswerTally
from app.performance.timeline import Shares, Timeline, begin_of, overlap
from engine.events import RoundFinished
from engine.language import number, tr

Row = tuple[str, ...]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Table:
    """A title, the columns' names, and the rows, each as long as the names."""

    title: str
    columns: Row
    rows: Sequence[Row]


class _Formatted(Sequence[Row]):
    """Rows that are put into words when they are looked at: there may be very many."""

    def __init__(self, items: Sequence[T], words: Callable[[T], Row]) -> None:
        self._count = len(items)
        self._row: Callable[[int], Row] = lambda index: words(items[index])

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        if isinstance(index, slice):
            return [self._row(each) for each in range(*index.indices(self._count))]
        if not -self._count <= index < self._count:
            raise IndexError(index)
        return self._row(index % self._count)


def formatted(items: Sequence[T], words: Callable[[T], Row]) -> Sequence[Row]:
    """Rows that are put into words when they are looked at."""
    return _Formatted(items, words)


def as_text(table: Table) -> str:
    """Return the table with tabs between the columns, as spreadsheets take it."""
    return "\n".join("\t".join(row) for row in (table.columns, *table.rows)) + "\n"


def of_numbers(title: str, tally: AnswerTally | None) -> Table:
    """The strip of numbers."""
    rows = tuple((label, value) for value, label in wording.numbers(tally))
    return Table(title, (tr("Item"), tr("Value")), rows)


def of_draft_time(title: str, shares: Shares | None) -> Table:
    """Return the table of the shares of the draft's time."""
    rows = tuple(
        (part.words, number(share * shares.seconds, ".2f"), wording.percent(share))
        for part, share in wording.draft_parts(shares)
        if shares is not None
    )
    return Table(title, (tr("Draft"), tr("Seconds"), tr("Share")), rows)


def of_depths(title: str, depths: list[tuple[int, int]]) -> Table:
    """Acceptance by position."""
    rows = tuple(
        (str(place), number(offered), number(accepted), wording.percent(accepted / offered))
        for place, (offered, accepted) in enumerate(depths, start=1)
    )
    columns = (tr("Position"), tr("On offer"), tr("Accepted"), tr("Share"))
    return Table(title, columns, rows)


def of_rounds(title: str, timeline: Timeline) -> Table:
    """Every round of an answer; times in milliseconds from the beginning of the first."""
    start = timeline.start or 0.0

    def row(done: RoundFinished) -> Row:
        return (
            str(done.index),
            number(1000 * (begin_of(done) - start), ".1f"),
            number(1000 * done.drafting_s, ".2f") if done.drafting else wording.ABSENT,
            number(1000 * done.verify.seconds, ".2f"),
            number(1000 * overlap(done), ".2f"),
            number(1000 * done.useful_s, ".2f"),
            number(1000 * done.wasted_s, ".2f"),
            str(done.drafted),
            str(done.accepted),
            str(done.committed),
        )

    columns = (
        tr("Round"),
        tr("Start (ms)"),
        tr("Drafting (ms)"),
        tr("Verifying (ms)"),
        tr("Both (ms)"),
        tr("Useful (ms)"),
        tr("Wasted (ms)"),
        tr("Drafted"),
        tr("Accepted"),
        tr("Written"),
    )
    return Table(title, columns, _Formatted(tuple(timeline.rounds), row))


def of_lane(lane: GraphModel, start: float, end: float) -> Table:
    """The measurements of one graph, the newest last; times in seconds before `end`."""
    columns = [tr("Seconds ago")]
    points: dict[float, list[str]] = {}
    for place, series in enumerate(lane.series):
        name = f"{tr(lane.names[place])} ({tr(lane.unit)})" if lane.names else tr(lane.unit)
        columns.append(name)
        for time, value in zip(*map(list, series.between(start, end)), strict=True):
            if start <= time <= end and value == value:  # NaN is a break
                row = points.setdefault(time, [wording.ABSENT] * len(lane.series))
                row[place] = number(value, ".2f")
    rows = tuple((number(end - time, ".1f"), *values) for time, values in sorted(points.items()))
    return Table(tr(lane.title), tuple(columns), rows)
