"""What a round without a draft takes, told with an answer's statistics."""

from __future__ import annotations

from engine.backend.round import Round, Verified
from engine.backend.tree import chain
from engine.events import Interval
from engine.session.tally import Tally


def _round(end: float, *, drafted: int = 0) -> Round:
    drafting = (Interval(end - 0.3, end - 0.2),) if drafted else ()
    tree = chain(0, range(drafted), [0.0] * drafted)
    return Round(tree, Verified((0,), (1,), 0, drafted), Interval(end - 0.1, end), drafting)


def test_the_typical_one_counts_from_commit_to_commit() -> None:
    tally = Tally()
    tally.add(_round(1.0), 1, first=True)
    for end, drafted in ((1.5, 0), (2.5, 3), (3.0, 0), (3.5, 0), (9.0, 0)):
        tally.add(_round(end, drafted=drafted), 1, first=False)
    assert tally.stats(0.0, None).plain_round_s == 0.5


def test_two_of_them_tell_nothing() -> None:
    tally = Tally()
    tally.add(_round(1.0), 1, first=True)
    for end in (1.5, 2.0):
        tally.add(_round(end), 1, first=False)
    assert tally.stats(0.0, None).plain_round_s is None
