"""What both lanes do at the same time, and what drafting was good for, from the rounds' spans."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.backend.round import Round
from engine.events import Interval


@dataclass(frozen=True, slots=True)
class LaneShares:
    """Shares of the decoding time, from the first committed token to the last.

    Attributes:
        overlap: of the verifying time, that in which the draft lane computed as well.
        draft_idle: of all of it, that without drafting.
        verify_idle: of all of it, that without verifying.
        useful: of all drafting time, also before the first token, that of which something was
            committed.
        wasted: of the same, that of which nothing can be committed any more.
    """

    overlap: float
    draft_idle: float
    verify_idle: float
    useful: float
    wasted: float


def lane_shares(answers: Iterable[Sequence[Round]]) -> LaneShares | None:
    """Of whole answers, each with its first round; None where nothing was decoded behind it."""
    whole = verifying = drafting = both = useful = wasted = spent = 0.0
    for rounds in answers:
        start, end = rounds[0].verify.end, rounds[-1].verify.end
        verify = within([done.verify for done in rounds[1:]], start, end)
        draft = within([each for done in rounds[1:] for each in done.drafting], start, end)
        whole += end - start
        verifying += seconds(verify)
        drafting += seconds(draft)
        both += seconds(common(draft, verify))
        useful += sum(done.useful for done in rounds)
        wasted += sum(done.wasted for done in rounds)
        spent += sum(each.seconds for done in rounds for each in done.drafting)
    if whole <= 0 or verifying <= 0:
        return None
    return LaneShares(
        overlap=min(both / verifying, 1.0),
        draft_idle=max(1 - drafting / whole, 0.0),
        verify_idle=max(1 - verifying / whole, 0.0),
        useful=min(useful / spent, 1.0) if spent else 0.0,
        wasted=min(wasted / spent, 1.0) if spent else 0.0,
    )


def within(spans: Iterable[Interval], start: float, end: float) -> list[Interval]:
    """What of the spans lies between two moments; those that meet become one."""
    merged: list[Interval] = []
    for span in sorted(spans, key=lambda span: span.start):
        first, last = max(span.start, start), min(span.end, end)
        if first >= last:
            continue
        if merged and first <= merged[-1].end:
            merged[-1] = Interval(merged[-1].start, max(last, merged[-1].end))
        else:
            merged.append(Interval(first, last))
    return merged


def common(ours: Sequence[Interval], theirs: Sequence[Interval]) -> list[Interval]:
    """What lies in both; neither overlaps itself."""
    shared = (
        Interval(max(one.start, other.start), min(one.end, other.end))
        for one in ours
        for other in theirs
    )
    return [span for span in shared if span.seconds > 0]


def seconds(spans: Iterable[Interval]) -> float:
    """All of them together."""
    return sum(span.seconds for span in spans)
