"""What answers reached stands above what was predicted, for a placement and for those like it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_planner import ANYTHING, CHEAP, GIB, SMALL_TARGET

from engine.backend.simulated.spec import simulated_accelerator
from engine.commands import Mode
from engine.machine.facts import Host, Machine
from engine.machine.reached import PlacementKey, PlacementKind, Reached
from engine.machine.speeds import Speeds
from engine.plan.facts import DraftFacts, Wish
from engine.plan.plan import Plan
from engine.plan.planner import Planning

HOST = Host(2, 64 * GIB, 64 * GIB, instruction_sets=("avx2",))
MACHINE = Machine(HOST, (simulated_accelerator(8 * GIB),))


def asked(wish: Wish = ANYTHING) -> Planning:
    return Planning(MACHINE, Speeds({}), SMALL_TARGET, [DraftFacts(CHEAP, 0.7)], wish)


def reached(planning: Planning, made: Plan, share: float, **more: float) -> Reached:
    assert made.tokens_per_s is not None
    return Reached(planning.models, made.key, share * made.tokens_per_s, **more)


def test_every_plan_is_found_among_the_placements() -> None:
    for mode in Mode:
        planning = asked(replace(ANYTHING, mode=mode, forced=mode is not Mode.AUTO))
        made = planning.plan()
        assert planning.rate(made.key) == made.tokens_per_s, mode


def test_what_falls_short_is_left_and_returned_to_if_the_other_is_worse() -> None:
    planning = asked()
    first = planning.plan()
    assert first.key.kind is PlacementKind.CPU
    short = reached(planning, first, 0.5)
    second = planning.knowing([short]).plan()
    assert second.key.kind is not PlacementKind.CPU
    worse = reached(planning, second, 0.3)
    made = planning.knowing([worse, short]).plan()
    assert made.key == first.key, "what else the accelerator could do falls as short"
    assert made.tokens_per_s == pytest.approx(short.tokens_per_s)
    assert any("was tried and is slower here" in reason for reason in made.reasons)
    assert not any("was tried" in reason for reason in first.reasons)


def test_what_the_cpu_fell_short_of_a_card_with_little_of_the_target_does_too() -> None:
    """Otherwise the model would be moved there by a prediction that was wrong already."""
    planning = asked()
    first = planning.plan()
    assert first.key.kind is PlacementKind.CPU
    knowing = planning.knowing([reached(planning, first, 0.8)])
    there = MACHINE.accelerators[0].device
    shares = []
    for cut in range(len(SMALL_TARGET.footprint.blocks) + 2):  # the head is one more
        key = PlacementKey(True, there, False, cut)
        before, after = planning.rate(key), knowing.rate(key)
        assert before is not None
        assert after is not None
        shares.append(after / before)
    assert shares[0] == pytest.approx(0.8)
    assert shares == sorted(shares)
    assert shares[-1] > 0.95


def test_what_other_models_reached_says_nothing() -> None:
    planning = asked()
    made = planning.plan()
    other = replace(reached(planning, made, 0.1), models="others")
    assert planning.knowing([other]).plan() == made


def test_the_acceptance_of_answers_takes_the_place_of_the_usual_one() -> None:
    planning = asked(replace(ANYTHING, mode=Mode.CPU))
    made = planning.plan()
    low = planning.knowing([], acceptance=0.2).rate(made.key)
    high = planning.knowing([], acceptance=0.9).rate(made.key)
    assert made.tokens_per_s is not None
    assert low is not None
    assert high is not None
    assert low < made.tokens_per_s < high
    assert made.key.kind is PlacementKind.CPU
    known = planning.knowing([reached(planning, made, 1.0, acceptance=0.9)]).plan()
    assert known.expected is not None
    assert known.expected.acceptance == 0.9


def test_a_simulated_card_that_does_not_keep_its_declared_speed_says_so() -> None:
    planning = asked()
    slow = reached(planning, planning.plan(), 0.6, pace=0.55)
    reasons = planning.knowing([slow]).plan().reasons
    assert any("keeps 55" in reason and "declared speed" in reason for reason in reasons)
    fair = replace(slow, pace=0.97)
    assert not any("declared speed" in reason for reason in planning.knowing([fair]).plan().reasons)
