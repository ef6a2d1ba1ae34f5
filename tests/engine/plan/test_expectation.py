"""What a plan tells decoding to expect."""

from __future__ import annotations

from itertools import pairwise

import pytest
from described import MACHINES, head, model

from engine.commands import Mode
from engine.machine.speeds import Speeds
from engine.plan.facts import DraftFacts, Wish, usual_draft
from engine.plan.plan import BUCKETS, Expectation, Plan
from engine.plan.planner import plan

HEAD = head("dgf-1", "7B")
SMALL = usual_draft(model("0.5B", "q4_0"))


def planned(machine: str, mode: Mode, drafts: list[DraftFacts], layers: int | None = None) -> Plan:
    wish = Wish(mode, None, lookup=True, forced=bool(drafts), layers_on_gpu=layers)
    return plan(MACHINES[machine], Speeds({}), model("7B", "q4_0"), drafts, wish)


def told(made: Plan) -> Expectation:
    assert made.expected is not None
    return made.expected


def test_forwards_take_longer_the_more_rows_they_have() -> None:
    expected = told(planned("rtx 2080", Mode.DOVETAIL, [HEAD], layers=4))
    assert len(expected.verify) == len(BUCKETS)
    assert all(less <= more for less, more in pairwise(expected.verify))
    assert 1 / expected.verify[0] == pytest.approx(
        planned("rtx 2080", Mode.DOVETAIL, [HEAD], layers=4).plain_tokens_per_s
    )


def test_heads_may_be_wide_and_stand_alone_drafts_as_wide_as_there_is_room() -> None:
    assert len(told(planned("rtx 2080", Mode.DOVETAIL, [HEAD])).levels) == 4
    expected = told(planned("desktop 64 GB", Mode.CPU, [SMALL]))
    assert len(expected.levels) == 3
    assert all(less <= more for less, more in pairwise(expected.levels))
    assert expected.acceptance == SMALL.acceptance


def test_the_first_tree_is_small_where_few_cores_verify() -> None:
    few = told(planned("laptop", Mode.CPU, [SMALL]))
    many = told(planned("desktop 64 GB", Mode.CPU, [SMALL]))
    assert (few.nodes, few.depth) == (6, 4)
    assert (many.nodes, many.depth) == (15, 7)
    assert told(planned("gtx 1060", Mode.DOVETAIL, [HEAD], layers=2)).nodes == 6


def test_where_nothing_drafts_nothing_is_expected() -> None:
    assert planned("desktop 64 GB", Mode.PLAIN, []).expected is None
