"""A device without kernels, or through WebGPU, is planned with as measured, or where asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from described import DRAFTS, GIB, card, host, model

from engine.commands import Mode
from engine.machine.facts import BY_WEBGPU, CPU, Machine
from engine.machine.speeds import Speeds
from engine.plan.assumed import assumed_speeds
from engine.plan.cost import slower
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


def two_paths(through_webgpu: float | None) -> Plan:
    """A plan where torch and WebGPU drive a card; the speed of the latter as a factor."""
    torch = replace(CARD, identity="GPU-1")
    webgpu = replace(torch, device="webgpu:0", identity=torch.identity + BY_WEBGPU)
    speeds = measured(1.0)
    if through_webgpu is not None:
        own = replace(slower(speeds.devices["cuda:0"], 1 / through_webgpu), device="webgpu:0")
        speeds = replace(speeds, devices={**speeds.devices, "webgpu:0": own})
    machine = Machine(host(8, 64, 64), (torch, webgpu))
    return plan(machine, speeds, model("8B", "q4_k_m"), DRAFTS["1B"], WISH)


@pytest.mark.parametrize(
    ("factor", "device"), [(None, "cuda:0"), (0.5, "cuda:0"), (1.5, "webgpu:0")]
)
def test_of_two_paths_to_a_card_the_faster_one_serves_it(factor: float | None, device: str) -> None:
    made = two_paths(factor)
    assert made.accelerator == device
    assert not any("is not used" in reason for reason in made.reasons)


def test_through_webgpu_it_is_used_as_measured_or_where_it_is_named() -> None:
    webgpu = replace(CARD, device="webgpu:0")
    made = planned(webgpu, Speeds({}))
    assert made.accelerator is None
    assert "A card is not used before its speed has been measured." in made.reasons
    assert planned(replace(webgpu, chosen=True), Speeds({})).accelerator == "webgpu:0"
