"""Measurements as files for other programs: tables, a trace, pictures. No Qt.

Numbers are written as programs read them: a point for decimals, seconds and milliseconds.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

from app.performance.model import GraphModel
from app.performance.timeline import begin_of, overlap
from engine.events import Interval, RoundFinished

_MS = 1000.0
_US = 1e6

_ROUND_COLUMNS = (
    "round",
    "start_ms",
    "drafting_ms",
    "verify_start_ms",
    "verify_ms",
    "both_ms",
    "copying_ms",
    "useful_ms",
    "wasted_ms",
    "drafted",
    "accepted",
    "committed",
    "context_used",
    "text_start",
    "text_end",
)


def rounds_as_csv(rounds: Sequence[RoundFinished]) -> str:
    """A line a round; times in milliseconds from the beginning of the first."""
    start = begin_of(rounds[0]) if rounds else 0.0

    def ms(seconds: float) -> str:
        return f"{_MS * seconds:.3f}"

    return _csv(
        _ROUND_COLUMNS,
        (
            (
                done.index,
                ms(begin_of(done) - start),
                ms(done.drafting_s),
                ms(done.verify.start - start),
                ms(done.verify.seconds),
                ms(overlap(done)),
                ms(sum(each.seconds for each in done.transfers)),
                ms(done.useful_s),
                ms(done.wasted_s),
                done.drafted,
                done.accepted,
                done.committed,
                done.context_used,
                done.text_start,
                done.text_end,
            )
            for done in rounds
        ),
    )


def graphs_as_csv(lanes: Sequence[GraphModel], start: float, end: float) -> str:
    """A line a measurement: seconds before the end, the graph, what of it, the value, its unit."""
    rows = []
    for lane in lanes:
        for place, series in enumerate(lane.series) if lane.present else ():
            name = lane.names[place] if lane.names else ""
            for time, value in zip(*map(list, series.between(start, end)), strict=True):
                if start <= time <= end and value == value:  # NaN is a break
                    rows.append((f"{time - end:.3f}", lane.title, name, f"{value:.6g}", lane.unit))
    return _csv(("seconds", "graph", "series", "value", "unit"), rows)


def rounds_as_trace(rounds: Sequence[RoundFinished]) -> str:
    """Return the format of Chrome's tracing, which Perfetto opens: a track for each lane."""
    start = begin_of(rounds[0]) if rounds else 0.0
    tracks = ("draft", "verify", "copy")
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": 1, "tid": tid, "name": "thread_name", "args": {"name": name}}
        for tid, name in enumerate(tracks, start=1)
    ]

    def add(tid: int, name: str, work: Interval, **told: object) -> None:
        at, length = _US * (work.start - start), _US * work.seconds
        span = {"ts": round(at, 1), "dur": round(length, 1)}
        events.append({"ph": "X", "pid": 1, "tid": tid, "name": name, **span, "args": told})

    for done in rounds:
        for work in done.drafting:
            add(1, f"draft {done.index}", work, round=done.index)
        add(
            2,
            f"verify {done.accepted}/{done.drafted}" if done.drafted else "verify",
            done.verify,
            round=done.index,
            drafted=done.drafted,
            accepted=done.accepted,
            committed=done.committed,
            context=done.context_used,
        )
        for copy in done.transfers:
            add(3, "copy", copy, round=done.index)
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": events})


def _csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return stream.getvalue()
