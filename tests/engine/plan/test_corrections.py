"""Plans with what is known of plans before: corrected within bounds, else as they were."""

from __future__ import annotations

from dataclasses import replace

import pytest
from described import DRAFTS, GIB, MIB, model
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.commands import Mode
from engine.errors import OutOfMemory
from engine.machine.correction import HIGHEST, LOWEST, Correction
from engine.machine.facts import CPU, Accelerator, Host, Machine, Vendor
from engine.machine.speeds import Speeds
from engine.plan.budgets import runtime_bytes
from engine.plan.facts import Wish
from engine.plan.known import key_of
from engine.plan.plan import Plan
from engine.plan.planner import plan

DRAFT = next(each for each in DRAFTS.values() if each)
TARGET = model("8B", "q4_k_m")
KEY = key_of(TARGET, DRAFT)
CARD = Accelerator("cuda:0", "A card", Vendor.NVIDIA, 12 * GIB, 12 * GIB)
MACHINE = Machine(Host(8, 64 * GIB, 64 * GIB), (CARD,))
WISH = Wish(Mode.DOVETAIL, 4096, lookup=True, forced=True, layers_on_gpu=12)


def planned(machine: Machine, wish: Wish = WISH) -> Plan:
    return plan(machine, Speeds({}), TARGET, DRAFT, wish)


def knowing(*corrections: Correction) -> Machine:
    return replace(MACHINE, corrections=corrections)


def test_what_is_known_of_others_changes_nothing() -> None:
    others = (
        Correction("another", "cuda:0", workspace=1.4),
        Correction(key_of(TARGET, []), "cuda:0", workspace=1.4),
        Correction(KEY, "cuda:1", workspace=1.4),
    )
    assert planned(knowing(*others)) == planned(MACHINE)


def test_each_purpose_is_corrected_on_its_device() -> None:
    before = planned(MACHINE)
    there = Correction(KEY, "cuda:0", target=1.02, kv=1.1, workspace=1.25)
    here = Correction(KEY, CPU, draft=1.1, workspace=0.9)
    after = planned(knowing(there, here))
    card, was = after.on("cuda:0"), before.on("cuda:0")
    assert card.target == pytest.approx(1.02 * was.target)
    assert card.kv == pytest.approx(1.1 * was.kv)
    assert card.workspace == pytest.approx(1.25 * was.workspace, rel=1e-6)
    assert (card.draft, card.runtime) == (was.draft, was.runtime)
    assert after.on(CPU).target == before.on(CPU).target
    assert after.on(CPU).workspace == pytest.approx(0.9 * before.on(CPU).workspace, rel=1e-6)


def test_a_device_takes_what_its_software_was_measured_to_take() -> None:
    usual = runtime_bytes(CARD)
    assert runtime_bytes(replace(CARD, software=usual + 300 * MIB)) == usual + 300 * MIB
    assert runtime_bytes(replace(CARD, software=1 << 50)) == 4 * GIB
    assert runtime_bytes(replace(CARD, software=1)) > 1
    known = replace(MACHINE, accelerators=(replace(CARD, software=usual - 200 * MIB),))
    assert planned(known).on("cuda:0").runtime == usual - 200 * MIB


def test_a_tight_budget_is_neither_refused_wrongly_nor_exceeded() -> None:
    """The smallest ceiling that is accepted moves with what is known."""

    def least(machine: Machine) -> int:
        refused, fits = 0, 12 * GIB
        while fits - refused > MIB:
            middle = (refused + fits) // 2
            try:
                made = planned(machine, replace(WISH, vram=middle))
            except OutOfMemory:
                refused = middle
            else:
                assert made.on("cuda:0").total <= middle
                fits = middle
        return fits

    as_usual = least(MACHINE)
    work = planned(MACHINE, replace(WISH, vram=as_usual)).on("cuda:0").workspace
    assert work > 20 * MIB
    more = least(knowing(Correction(KEY, "cuda:0", workspace=1.4)))
    assert more - as_usual == pytest.approx(0.4 * work, abs=3 * MIB, rel=0.03)
    less = least(knowing(Correction(KEY, "cuda:0", workspace=0.85)))
    assert as_usual - less == pytest.approx(0.15 * work, abs=3 * MIB, rel=0.03)


@settings(max_examples=25, deadline=None)
@given(*[st.floats(0, 1e6)] * 4, st.sampled_from([CPU, "cuda:0"]))
def test_whatever_a_file_says_plans_stay_near_arithmetic(
    target: float, draft: float, kv: float, workspace: float, device: str
) -> None:
    wild = Correction(KEY, device, target, draft, kv, workspace)
    try:
        after = planned(knowing(wild))
    except OutOfMemory:
        pytest.fail("there is room for half as much again")
    for was in planned(MACHINE).memory:
        now = after.on(was.device)
        for name in ("target", "draft", "kv", "workspace"):
            before = getattr(was, name)
            if was.device != device:
                assert getattr(now, name) == before
            else:
                assert LOWEST * before - 4 <= getattr(now, name) <= HIGHEST * before + 4
