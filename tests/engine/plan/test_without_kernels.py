"""A device without kernels is planned with as it was measured, or where it is asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from described import DRAFTS, GIB, card, host, model

from engine.commands import Mode
from engine.machine.facts import CPU, Machine
from engine.machine.speeds import Speeds
from engine.plan.assumed import assumed_speeds
from engine.plan.facts import Wish
from engine.plan.plan import Plan
from engine.plan.planner import plan

CARD = card("A card", 12, 12)
OTHER = replace(CARD, without_kernels="Triton is not installed.")
WISH = Wish(Mode.AUTO, 4096, lookup=True, forced=False)


def planned(found: object, speeds: Speeds, wish: Wish = WISH) -> Plan:
    machine = Machine(host(8, 64, 64), (found,))  # type: ignore[arg-type]
    return plan(machine, speeds, model("8B", "q4_k_m"), DRAFTS["1B"], wish)


def measured(factor: float) -> Speeds:
    """The usual speeds, with the card's divided by `factor`."""
    from engine.plan.cost import slower

    usual = assumed_speeds(Machine(host(8, 64, 64), (CARD,)))
    devices = {**usual.devices, "cuda:0": slower(usual.devices["cuda:0"], factor)}
    return replace(usual, devices=devices, measured=True)


def test_it_is_not_assumed_to_be_fast() -> None:
    assert planned(CARD, Speeds({})).accelerator == "cuda:0"
    made = planned(OTHER, Speeds({}))
    assert made.accelerator is None
    assert (
        "A card is not used before its speed has been measured. Triton is not installed."
        in made.reasons
    )


def test_it_is_used_where_it_was_measured_to_be_faster() -> None:
    assert planned(OTHER, measured(1.0)).accelerator == "cuda:0"
    made = planned(OTHER, measured(50.0))
    assert made.accelerator is None
    assert any("the CPU alone is" in reason for reason in made.reasons)


@pytest.mark.parametrize(
    "wish", [replace(WISH, mode=Mode.DOVETAIL), replace(WISH, layers_on_gpu=8)]
)
def test_it_is_used_where_it_is_asked_for(wish: Wish) -> None:
    assert planned(OTHER, Speeds({}), wish).accelerator == "cuda:0"


def test_asking_for_the_cpu_needs_no_other_reason() -> None:
    made = planned(OTHER, Speeds({}), replace(WISH, mode=Mode.CPU))
    assert made.on(CPU).target > GIB
    assert not any("measured" in reason for reason in made.reasons)
