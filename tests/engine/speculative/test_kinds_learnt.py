"""Acceptance by kind of text: learnt apart, kept from start to start, worth its time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from harness import beside
from simulated_pairs import round_of
from virtual_time import Text, Timed, calm, write

from engine.backend.tree import TokenTree, chain
from engine.devices.kept_measurements import KeptLearnt
from engine.events import Interval
from engine.model.text.kinds_of_text import TextKind
from engine.plan.plan import BUCKETS, Expectation
from engine.speculative.controller import Controller
from engine.speculative.costs import Learnt

PROSE, CODE, LIST = TextKind.PROSE, TextKind.CODE, TextKind.LIST
PAIR = Timed(
    ((1, 0.032), (2, 0.033), (4, 0.036), (8, 0.044), (16, 0.07), (32, 0.135)),
    level=0.0013,
    begin=0.0003,
    acceptance=0.65,
    spread=3.0,
)
DIFFERENT = {PROSE: 0.3, CODE: 0.95}
ALIKE = {PROSE: 0.7, CODE: 0.7}


def fresh() -> Controller:
    return Controller(PAIR.expectation())


def taught(seeds: int = 4) -> Controller:
    """A controller that has written some prose and some code."""
    controller = fresh()
    for seed in range(seeds):
        write(PAIR, Text.alternating(PAIR, DIFFERENT, 40, 256, seed), 256, controller, calm(seed))
    return controller


def started(learnt: Learnt) -> Controller:
    """A controller after a new start and the first round of an answer."""
    controller = fresh()
    controller.recall(learnt)
    controller.begin()
    verify = Interval(0.0, PAIR.rows(1))
    controller.observe(round_of(TokenTree.root(0), None, verify, accepted=0, offered=0), 0.0)
    return controller


def depth(controller: Controller, kind: TextKind) -> int:
    """Depth of the next round where the text goes on with this kind."""
    controller.turn_to(kind)
    budget = controller.next_budget(30)
    assert budget is not None
    return budget.depth


def test_another_kind_of_text_changes_the_budget_at_once_and_back() -> None:
    controller = started(taught().learnt)
    depths = [depth(controller, kind) for kind in (PROSE, CODE, PROSE, CODE)]
    assert depths[0] == depths[2] <= 4
    assert depths[1] == depths[3] >= 8


def test_what_is_learnt_of_one_kind_leaves_another_as_it_was() -> None:
    controller = started(taught().learnt)
    before = depth(controller, CODE)
    text = Text.alternating(PAIR, {LIST: 0.1}, 40, 256, 1)
    write(PAIR, text, 256, controller, calm(1))
    assert depth(controller, LIST) <= 4
    assert depth(controller, CODE) == before


def test_the_next_start_drafts_code_deep_from_the_first_round(tmp_path: Path) -> None:
    KeptLearnt(tmp_path).keep("pair", taught().learnt)
    learnt = KeptLearnt(tmp_path).find("pair")
    assert learnt is not None
    assert {"goes_on", "goes_on prose", "goes_on code"} <= set(learnt.means)
    assert "goes_on list" not in learnt.means
    assert depth(started(learnt), CODE) >= depth(started(learnt), PROSE) + 4
    unknown = depth(started(learnt), LIST)
    assert depth(started(learnt), PROSE) <= unknown <= depth(started(learnt), CODE)


def test_what_an_older_version_has_kept_holds_for_every_kind(tmp_path: Path) -> None:
    controller, kinds = fresh(), tuple(TextKind)
    for seed in range(4):
        text = Text.alternating(PAIR, {CODE: 0.95}, 40, 256, seed)
        write(PAIR, text, 256, controller, calm(seed))
    learnt = controller.learnt
    means = {name: mean for name, mean in learnt.means.items() if not name.endswith(kinds)}
    KeptLearnt(tmp_path).keep("pair", replace(learnt, means=means))
    old = KeptLearnt(tmp_path).find("pair")
    assert old is not None
    assert "goes_on" in old.means
    assert {depth(started(old), kind) >= 8 for kind in kinds} == {True}
    assert depth(started(Learnt()), PROSE) < 8


def seconds(means: Mapping[TextKind, float], *, told: bool) -> float:
    """Time for answers after a new start, by a controller that is told the kinds or not."""

    def text(seed: int) -> Text:
        written = Text.alternating(PAIR, means, 30, 256, seed)
        return written if told else replace(written, kinds=())

    before = fresh()
    for seed in range(900, 904):
        write(PAIR, text(seed), 256, before, calm(seed))
    again = fresh()
    again.recall(before.learnt)
    return sum(write(PAIR, text(seed), 256, again, calm(seed)) for seed in range(30))


def test_answers_of_prose_and_code_are_faster_where_the_kinds_are_told() -> None:
    assert seconds(DIFFERENT, told=False) / seconds(DIFFERENT, told=True) > 1.01


def test_telling_kinds_apart_that_are_alike_costs_nothing() -> None:
    assert seconds(ALIKE, told=False) / seconds(ALIKE, told=True) > 0.993


@pytest.mark.parametrize("recalled", [False, True])
def test_both_lanes_go_by_the_kind(recalled: bool) -> None:
    expected = Expectation((1.0,) * len(BUCKETS), (0.1, 0.1, 0.1), 0.6)
    controller = beside(expected, forced=True)
    controller.begin()
    tree = chain(0, (1, 2), (-0.1, -0.2))
    for number in range(60):
        controller.turn_to(CODE if number % 20 >= 10 else PROSE)
        accepted, offered = (2, 2) if number % 20 >= 10 else (0, 1)
        kept, verify = controller.prune(tree), Interval(0.0, 1.0)
        done = round_of(kept, None, verify, accepted=accepted, offered=offered)
        controller.observe(done, 1.0, ready=True)
    if recalled:
        learnt = controller.learnt
        controller = beside(expected, forced=True)
        controller.recall(learnt)
    controller.turn_to(CODE)
    code = controller.lanes
    controller.turn_to(PROSE)
    prose = controller.lanes
    assert code.goes_on > 0.9
    assert prose.goes_on < 0.2
    assert code.trust > 3 * prose.trust
