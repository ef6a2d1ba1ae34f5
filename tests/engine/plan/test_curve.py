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
