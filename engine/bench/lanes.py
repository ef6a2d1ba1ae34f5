"""Rounds on their lanes: how long both computed at once, and a table to draw pictures of."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from engine.backend.round import Round
from engine.events import Interval

COLUMNS = (
    *("round", "lane", "start_ms", "end_ms", "drafted", "accepted", "committed"),
    *("useful_ms", "wasted_ms"),
)
"""The columns of the table; `lane` is "draft" or "verify"."""


def overlap(rounds: Sequence[Round]) -> float:
    """Share of the verifying time behind the first round in which the draft computed as well."""
    verifying = [done.verify for done in rounds[1:]]
    drafting = [span for done in rounds for span in done.drafting]
    both = sum(
        max(min(one.end, other.end) - max(one.start, other.start), 0.0)
        for one in verifying
        for other in drafting
    )
    spent = sum(span.seconds for span in verifying)
    return both / spent if spent else 0.0


def rounds_as_csv(rounds: Sequence[Round]) -> str:
    """A line a piece of work, in milliseconds from the first one's beginning."""
    start = min((span.start for done in rounds for _, span in _work(done)), default=0.0)
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    for index, done in enumerate(rounds):
        counts = done.drafted, done.accepted, len(done.tokens)
        fates = f"{1e3 * done.useful:.3f}", f"{1e3 * done.wasted:.3f}"
        for lane, span in _work(done):
            times = (f"{1e3 * (at - start):.3f}" for at in (span.start, span.end))
            writer.writerow((index, lane, *times, *counts, *fates))
    return stream.getvalue()


def _work(done: Round) -> Iterator[tuple[str, Interval]]:
    yield from (("draft", span) for span in done.drafting)
    yield "verify", done.verify
