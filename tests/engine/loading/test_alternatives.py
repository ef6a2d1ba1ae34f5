"""What is offered instead of a load that does not fit: each way plans within its budgets."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1] / "plan"))
from described import DRAFTS, GIB, MACHINES, TARGETS, model

from engine.commands import DraftChoice, Load, Mode, WeightFormat
from engine.errors import OutOfMemory, UserFixable
from engine.loading.alternatives import (
    MOST,
    ROUND,
    LoadFacts,
    PlanFor,
    _ceiling,
    _placed,
    alternatives,
)
from engine.loading.planned_load import planning_for
from engine.machine.facts import CPU
from engine.machine.memory import host_reserve
from engine.machine.speeds import Speeds
from engine.plan.facts import ModelFacts
from engine.plan.footprint import footprint
from engine.plan.memory import device_limit
from engine.plan.plan import Plan

FORMATS = (WeightFormat.Q8, WeightFormat.Q4)
LOAD = Load(Path("13B"))


def planner(machine: str, size: str, stored: str, draft: str = "none") -> PlanFor:
    """Plans loads of one model on one machine."""
    facts, here = model(size, stored), MACHINES[machine]

    def plan_for(load: Load) -> Plan:
        target = facts
        if load.weights is not WeightFormat.AUTO:
            assert facts.footprint.config is not None
            held = footprint(facts.footprint.config, load.weights)
            target = ModelFacts(facts.name, held, facts.max_positions)
        drafting = load.draft is not DraftChoice.NONE
        drafts = [each.model for each in DRAFTS[draft]] if drafting else []
        return planning_for(load, target, drafts, here, Speeds({})).plan()

    return plan_for


def facts_of(machine: str, size: str, stored: str) -> LoadFacts:
    facts, usable = model(size, stored), MACHINES[machine].usable
    layers, name = len(facts.footprint.blocks), usable[0].name if usable else ""
    return LoadFacts(layers, facts.max_positions, FORMATS, name)


def offered(machine: str, size: str, stored: str, load: Load, draft: str = "none") -> list[str]:
    plan_for = planner(machine, size, stored, draft)
    with pytest.raises(OutOfMemory):
        plan_for(load)
    return [way.words for way in alternatives(load, facts_of(machine, size, stored), plan_for)]


@pytest.mark.parametrize(
    ("machine", "stored", "change", "words"),
    [
        ("laptop", "13 bf16", {}, ["4-bit weights"]),
        ("hybrid laptop", "13 bf16", {}, ["8-bit weights", "4-bit weights"]),
        ("laptop 8 GB", "13 bf16", {}, []),
        ("container", "7 q4_k_m", {"context": 4096}, ["Context of 2,048 tokens"]),
        (
            "rtx 3060",
            "13 q8_0",
            {"layers_on_gpu": 40},
            ["24 of 40 layers on RTX 3060", "Everything on the CPU", "4-bit weights"],
        ),
        (
            "rtx 3060",
            "13 q8_0",
            {"mode": Mode.DOVETAIL, "vram": GIB // 4},
            ["Up to 10.2\N{NO-BREAK SPACE}GiB of RTX 3060", "Automatic mode"],
        ),
        (
            "gtx 1050",
            "13 bf16",
            {"layers_on_gpu": 20},
            ["8 of 40 layers on GTX 1050, 4-bit weights"],
        ),
    ],
)
def test_what_would_fit_is_offered_the_nearest_first(
    machine: str, stored: str, change: dict[str, object], words: list[str]
) -> None:
    load = replace(LOAD, **change)  # type: ignore[arg-type]
    size, kind = stored.split()
    found = offered(machine, {"7": "old 7B", "13": "13B"}[size], kind, load)
    assert found[: len(words)] == words
    assert bool(found) == bool(words)


def test_a_ceiling_that_leaves_nothing_on_the_card_says_so() -> None:
    made = planner("rtx 2080", "8B", "q4_k_m")(replace(LOAD, vram=0))
    facts = facts_of("rtx 2080", "8B", "q4_k_m")
    assert len(made.memory) == 1
    assert _ceiling(facts)(made) == _placed(made, facts)
    with_card = planner("rtx 2080", "8B", "q4_k_m")(LOAD)
    assert _ceiling(facts)(with_card).startswith("up to ")


def test_a_draft_that_was_asked_for_can_be_given_up() -> None:
    load = replace(LOAD, draft=Path("1B"), context=2048)
    plan_for = planner("container", "old 7B", "q4_k_m", "1B")
    found = alternatives(load, facts_of("container", "old 7B", "q4_k_m"), plan_for)
    assert replace(load, draft=DraftChoice.NONE) in [way.load for way in found]
    assert "No draft" in [way.words for way in found]


def _fits(machine: str, made: Plan, load: Load) -> None:
    here = MACHINES[machine]
    for each in made.memory:
        if each.device == CPU:
            assert each.total <= here.host.memory_available - host_reserve(here.host)
        else:
            (found,) = [card for card in here.usable if card.device == each.device]
            assert each.total <= device_limit(found)
            assert each.total <= (load.vram or each.total)


def _loads() -> st.SearchStrategy[Load]:
    return st.builds(
        Load,
        st.just(Path("model")),
        draft=st.sampled_from([DraftChoice.AUTO, DraftChoice.LOOKUP, DraftChoice.NONE, Path("d")]),
        mode=st.sampled_from(Mode),
        context=st.sampled_from([None, 300, 2048, 8192, 100_000]),
        vram=st.sampled_from([None, 0, GIB // 2, 3 * GIB, 30 * GIB]),
        layers_on_gpu=st.sampled_from([None, 0, 7, -1]),
    )


@settings(max_examples=settings.default.max_examples // 3)
@given(
    machine=st.sampled_from(sorted(MACHINES)),
    target=st.sampled_from([*TARGETS, ("13B", "bf16"), ("70B", "q8_0")]),
    draft=st.sampled_from(sorted(set(DRAFTS) - {"head", "head or 1B", "both"})),
    load=_loads(),
)
def test_every_way_out_really_fits(
    machine: str, target: tuple[str, str], draft: str, load: Load
) -> None:
    plan_for = planner(machine, *target, draft)
    found = alternatives(load, facts_of(machine, *target), plan_for)
    assert len(found) <= MOST
    for way in found:
        made = plan_for(way.load)
        _fits(machine, made, way.load)
        assert way.tokens_per_s == made.tokens_per_s
        assert way.load != load
        assert way.load.model == load.model
        assert way.words
        if way.load.context != load.context:
            assert way.load.context in ROUND
    assert len({way.load for way in found}) == len({way.words for way in found}) == len(found)


def _refusals() -> list[tuple[str, Load]]:
    bf16 = [(machine, LOAD) for machine in ("laptop", "gtx 1050", "m2 16 GB", "simulated")]
    asked_for = replace(LOAD, layers_on_gpu=40)
    return [*bf16, *[(machine, asked_for) for machine in ("gtx 1050", "half a game", "game")]]


@pytest.mark.parametrize(("machine", "load"), _refusals())
def test_a_shortage_adds_up(machine: str, load: Load) -> None:
    """What is missing is what the cause tells; with so much more memory it would fit."""
    with pytest.raises(OutOfMemory) as refused:
        planner(machine, "13B", "bf16")(load)
    lacking = refused.value.shortage
    assert lacking is not None
    assert lacking.missing == lacking.needed.total - lacking.free > 0
    assert lacking.needed.target > GIB
    assert not lacking.holders
    here = MACHINES[machine]
    if lacking.device == CPU:
        assert lacking.free == here.host.memory_available - host_reserve(here.host)
    else:
        assert lacking.name == here.usable[0].name
        assert lacking.free == device_limit(here.usable[0])


def test_nothing_is_asked_for_twice() -> None:
    """Planning is cheap, and a refusal comes at once all the same."""
    loads: list[Load] = []

    def refuse(load: Load) -> Plan:
        loads.append(load)
        raise UserFixable("No.", "Never.")

    facts = LoadFacts(40, 4096, FORMATS, "card")
    assert alternatives(replace(LOAD, layers_on_gpu=3), facts, refuse) == ()
    assert len(loads) < 150
