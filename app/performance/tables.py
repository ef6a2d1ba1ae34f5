"""The numbers behind the views of the panel, as tables. No Qt."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from app.performance import wording
from app.performance.chip_layout import traced
from app.performance.model import GraphModel
from app.performance.timeline import Shares, Timeline, begin_of, overlap
from app.performance.tokens import AnswerTokens
from app.widgets.table import Row, Table, formatted
from engine.events import RoundFinished
from engine.language import number, tr


def of_draft_time(title: str, shares: Shares | None) -> Table:
    """Return the table of the shares of the draft's time."""
    rows = tuple(
        (part.words, number(share * shares.seconds, ".2f"), wording.percent(share))
        for part, share in wording.draft_parts(shares)
        if shares is not None
    )
    return Table(title, (tr("Draft"), tr("Seconds"), tr("Share")), rows)


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
    return Table(title, columns, formatted(tuple(timeline.rounds), row))


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


def of_tokens(title: str, tokens: AnswerTokens) -> Table:
    """Every token with its round; those that were refused as well."""
    rounds = tuple(tokens.rounds)
    ends = list(accumulate(each.count for each in rounds))

    def row(index: int) -> Row:
        place = bisect_right(ends, index)
        each = rounds[place]
        token = each.tokens()[index - ends[place] + each.count]
        return (
            str(each.done.index),
            traced(token),
            tr(token.fate.value),
            wording.chance(token.draft_probability),
            wording.chance(token.probability),
        )

    columns = (tr("Round"), tr("Token"), tr("Result"), tr("Draft"), tr("Target"))
    return Table(title, columns, formatted(range(ends[-1] if ends else 0), row))
