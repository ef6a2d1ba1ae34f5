"""What two lanes do at the same time, by hand."""

from __future__ import annotations

import pytest

from engine.backend.round import Round, Verified
from engine.backend.tree import TokenTree
from engine.bench.lane_shares import common, lane_shares, seconds, within
from engine.events import Interval


def spans(*pairs: tuple[float, float]) -> list[Interval]:
    return [Interval(*pair) for pair in pairs]


def round_of(
    verify: tuple[float, float],
    *drafting: tuple[float, float],
    useful: float = 0.0,
    wasted: float = 0.0,
) -> Round:
    verified = Verified((0,), (1,), 0, 0)
    spent = tuple(spans(*drafting))
    return Round(TokenTree.root(0), verified, Interval(*verify), spent, useful, wasted)


def test_spans_that_meet_become_one_and_stay_within() -> None:
    assert within(spans((4, 6), (1, 2), (2, 3), (5, 9), (20, 30)), 1.5, 8) == spans(
        (1.5, 3), (4, 8)
    )
    assert within([], 0, 1) == []


def test_what_lies_in_both() -> None:
    shared = common(spans((0, 2), (3, 6)), spans((1, 4), (5, 9)))
    assert shared == spans((1, 2), (3, 4), (5, 6))
    assert seconds(shared) == 3
    assert common(spans((0, 1)), spans((1, 2))) == []


def test_shares_of_an_answer() -> None:
    rounds = [
        round_of((0, 10), (0, 9)),  # the prompt's: before the first token is there
        round_of((12, 16), (8, 13), useful=1.0),
        round_of((16, 20), (14, 15), (17, 20), useful=2.0, wasted=3.0),
    ]
    shares = lane_shares([rounds])
    assert shares is not None
    # Behind 10: drafting 10-13, 14-15 and 17-20; verifying 12-20.
    assert shares.overlap == pytest.approx((1 + 1 + 3) / 8)
    assert shares.draft_idle == pytest.approx(1 - 7 / 10)
    assert shares.verify_idle == pytest.approx(1 - 8 / 10)
    assert shares.useful == pytest.approx(3 / 18)
    assert shares.wasted == pytest.approx(3 / 18)


def test_answers_count_by_their_length() -> None:
    busy = [round_of((0, 1)), round_of((1, 4), (1, 4))]
    idle = [round_of((100, 101)), round_of((101, 102))]
    shares = lane_shares([busy, idle])
    assert shares is not None
    assert shares.overlap == pytest.approx(3 / 4)
    assert shares.verify_idle == 0


def test_nothing_was_decoded() -> None:
    assert lane_shares([]) is None
    assert lane_shares([[round_of((0, 1), (0, 1))]]) is None
