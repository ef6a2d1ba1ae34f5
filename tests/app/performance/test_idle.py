"""Why a lane rests."""

from __future__ import annotations

from dataclasses import replace

import scripted_rounds as scripted
from hypothesis import given
from hypothesis import strategies as st

from app.performance.idle import Cause, Gap, gaps
from app.performance.timeline import Lane
from engine.events import Interval, RoundFinished


def test_each_gap_has_its_reason() -> None:
    rounds = [
        scripted.round_finished(1, 0.0, draft=2.0, verify=3.0, drafted=4, accepted=1),
        scripted.round_finished(2, 6.0, verify=2.0),
        scripted.round_finished(3, 8.0, draft=1.0, verify=2.0, drafted=4, accepted=1),
    ]
    assert gaps(rounds, 0.0, 11.0) == [
        Gap(Lane.VERIFY, 0.0, 2.0, Cause.DRAFT),
        Gap(Lane.VERIFY, 5.0, 6.0, Cause.HOST),
        Gap(Lane.VERIFY, 8.0, 9.0, Cause.DRAFT),
        Gap(Lane.DRAFT, 2.0, 5.0, Cause.TARGET),
        Gap(Lane.DRAFT, 5.0, 6.0, Cause.HOST),
        Gap(Lane.DRAFT, 6.0, 8.0, Cause.PLAIN),
        Gap(Lane.DRAFT, 9.0, 11.0, Cause.TARGET),
    ]


def test_without_drafts_their_lane_says_nothing() -> None:
    rounds = [scripted.round_finished(1, 0.0, verify=1.0), scripted.round_finished(2, 1.5)]
    assert gaps(rounds, 0.0, 3.0) == [Gap(Lane.VERIFY, 1.0, 1.5, Cause.HOST)]
    assert gaps([], 0.0, 1.0) == []


def test_while_the_draft_works_ahead_the_lanes_wait_for_nothing() -> None:
    done = scripted.round_finished(1, 0.0, draft=1.0, verify=8.0, drafted=4, accepted=1)
    spans = (Interval(0.0, 1.0), Interval(1.5, 3.0), Interval(6.0, 9.0))
    rounds = [replace(done, drafting=spans, verify=Interval(2.0, 8.0))]
    assert gaps(rounds, 0.0, 20.0) == [
        Gap(Lane.VERIFY, 0.0, 1.0, Cause.DRAFT),
        Gap(Lane.VERIFY, 1.0, 1.5, Cause.HOST),
        Gap(Lane.VERIFY, 1.5, 2.0, Cause.DRAFT),
        Gap(Lane.VERIFY, 8.0, 9.0, Cause.DRAFT),
        Gap(Lane.DRAFT, 1.0, 1.5, Cause.HOST),
        Gap(Lane.DRAFT, 3.0, 6.0, Cause.TARGET),
    ]
    # Rests that are too short to be seen break nothing up.
    assert gaps(rounds, 0.0, 20.0, fine=1.0) == [
        Gap(Lane.VERIFY, 0.0, 2.0, Cause.DRAFT),
        Gap(Lane.VERIFY, 8.0, 9.0, Cause.DRAFT),
        Gap(Lane.DRAFT, 3.0, 6.0, Cause.TARGET),
    ]


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 4), min_size=1, max_size=20))
def test_gaps_and_work_fill_the_time_and_never_overlap(
    steps: list[tuple[int, int, int, int]],
) -> None:
    """Against whole ticks: every tick of a lane is work or exactly one gap."""
    rounds, clock, free = [], 0, 0
    for index, (draft, pause, verify, rest) in enumerate(steps, 1):
        begin = max(free, clock - 1)  # drafts may run one tick ahead
        spans = [Interval(begin, begin + draft)] if draft else []
        start = max(clock, begin + draft) + pause
        if draft and rest:  # and go on while the target verifies
            spans.append(Interval(start + 1, start + 1 + rest))
        done = scripted.round_finished(index, 0.0, drafted=2 if draft else 0)
        rounds.append(
            RoundFinished(
                **{name: getattr(done, name) for name in done.__slots__}
                | {
                    "drafting": tuple(spans),
                    "verify": Interval(start, start + verify + 1),
                }
            )
        )
        clock = start + verify + 1 + rest
        free = int(spans[-1].end) if spans else free
    lanes = {Lane.VERIFY: [each.verify for each in rounds]}
    drafts = [work for each in rounds for work in each.drafting]
    begun = min(work.start for work in (*lanes[Lane.VERIFY], *drafts))
    end = max(work.end for work in (*lanes[Lane.VERIFY], *drafts))
    found = gaps(rounds, begun, end)
    if drafts:
        lanes[Lane.DRAFT] = drafts
    for lane, works in lanes.items():
        own = [gap for gap in found if gap.lane is lane]
        for tick in range(int(begun), int(end)):
            busy = any(work.start <= tick < work.end for work in works)
            idle = sum(gap.start <= tick < gap.end for gap in own)
            assert idle == (0 if busy else 1)
