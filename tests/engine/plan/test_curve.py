"""The curve along the ceiling says what a plan for each ceiling says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from described import DRAFTS, GIB, model
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.commands import Mode
from engine.errors import OutOfMemory
from engine.machine.facts import CPU, Accelerator, Host, Machine
from engine.machine.speeds import Speeds
from engine.plan.facts import Wish
from engine.plan.planner import Planning, plan

ASSUMED = Speeds({})
WISH = Wish(Mode.AUTO, 4096, lookup=True, forced=False)
MODES = (Mode.AUTO, Mode.DOVETAIL, Mode.CPU, Mode.PLAIN, Mode.DUO)


def machine(vram: float, memory: float = 64, *, simulated: bool = False) -> Machine:
    card = Accelerator(
        "cuda:0", "A card", memory_total=int(vram * GIB), memory_free=int(vram * GIB),
        simulated=simulated,
    )  # fmt: skip
    return Machine(Host(8, int(memory * GIB), int(memory * GIB)), (card,))


@settings(max_examples=60, deadline=None)
@given(st.floats(1, 24), st.sampled_from(MODES), st.floats(0, 1), st.booleans())
def test_a_point_is_the_plan_for_its_ceiling(
    vram: float, mode: Mode, share: float, simulated: bool
) -> None:
    drafts = next(each for each in DRAFTS.values() if each)
    here, wish = machine(vram, simulated=simulated), replace(WISH, mode=mode)
    facts = model("8B", "q4_k_m")
    curve = Planning(here, ASSUMED, facts, drafts, wish).curve()
    ceiling = int(share * vram * GIB)
    point = curve.at(ceiling)
    try:
        made = plan(here, ASSUMED, facts, drafts, replace(wish, vram=ceiling))
    except OutOfMemory:
        assert point is None
        return
    assert point is not None
    assert (point.mode, point.layers_on_gpu) == (made.mode, made.layers_on_gpu)
    assert (point.embedding_on_gpu, point.head_on_gpu) == (made.embedding_on_gpu, made.head_on_gpu)
    assert point.tokens_per_s == made.tokens_per_s
    assert [each.total for each in point.memory] == [each.total for each in made.memory]


@pytest.mark.parametrize("mode", MODES)
def test_steps_rise_and_the_knee_is_one_of_them(mode: Mode) -> None:
    drafts = next(each for each in DRAFTS.values() if each)
    planning = Planning(
        machine(12), ASSUMED, model("8B", "q4_k_m"), drafts, replace(WISH, mode=mode)
    )
    curve = planning.curve()
    ceilings = [point.vram for point in curve.points]
    assert ceilings == sorted(set(ceilings))
    assert ceilings[-1] <= curve.limit
    assert curve.at() == curve.at(curve.knee)
    if mode is Mode.AUTO:
        rates = [point.tokens_per_s for point in curve.points]
        assert rates == sorted(rates)
        assert len(rates) > 10
    if mode is Mode.CPU:
        assert ceilings == [0]
    assert all(point.memory[0].device == CPU for point in curve.points)


@pytest.mark.parametrize("simulated", [False, True])
def test_the_knee_of_a_forced_dovetail_is_about_as_fast_as_any_of_its_steps(
    simulated: bool,
) -> None:
    """More memory is not taken for its own sake, neither on a real nor on a simulated GPU."""
    drafts = next(each for each in DRAFTS.values() if each)
    here, wish = machine(12, simulated=simulated), replace(WISH, mode=Mode.DOVETAIL)
    curve = Planning(here, ASSUMED, model("8B", "q4_k_m"), drafts, wish).curve()
    knee = curve.at()
    assert knee is not None
    there = [each for each in curve.points if each.draft_device == knee.draft_device]
    assert knee.draft_device != CPU
    assert knee.tokens_per_s >= 0.95 * max(each.tokens_per_s for each in there)
    assert not any(each.tokens_per_s > knee.tokens_per_s for each in there if each.vram < knee.vram)


def test_a_budget_of_ones_own_is_the_cause_where_the_gpu_has_room() -> None:
    drafts = next(each for each in DRAFTS.values() if each)
    wish = replace(WISH, mode=Mode.DUO, vram=GIB)
    with pytest.raises(OutOfMemory) as refused:
        plan(machine(12), ASSUMED, model("8B", "q4_k_m"), drafts, wish)
    assert refused.value.shortage is not None
    assert refused.value.shortage.budgeted
    assert "Raise the budget" in refused.value.remedy
    with pytest.raises(OutOfMemory) as full:
        plan(machine(3), ASSUMED, model("8B", "q4_k_m"), drafts, replace(wish, vram=None))
    assert full.value.shortage is not None
    assert not full.value.shortage.budgeted


def test_an_idle_gpu_is_the_first_thing_that_is_explained() -> None:
    wish = replace(WISH, mode=Mode.CPU, lookup=False)
    made = plan(machine(12), ASSUMED, model("8B", "q4_k_m"), [], wish)
    assert made.reasons[0] == "A card is not used, because you asked for the CPU."
