"""What is recommended for a machine: models that run there, different ones, with their drafts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.hub.advice import Badge, Recommendation, RecommendedRole
from engine.hub.curated import curated
from engine.hub.recommendations import MOST, recommendations
from engine.machine.facts import Accelerator, Host, Machine, Vendor
from engine.machine.speeds import Speeds

GIB = 2**30


def machine(cores: int, free: float, vram: int = 0) -> Machine:
    card = Accelerator("cuda:0", "Card", Vendor.NVIDIA, vram * GIB, int(0.9 * vram * GIB))
    host = Host(cores, int(1.3 * free * GIB), int(free * GIB), instruction_sets=("avx2",))
    return Machine(host, (card,) if vram else ())


MACHINES = {
    "a small laptop": machine(4, 5.0),
    "two cores": machine(2, 12.0),
    "a gaming machine": machine(8, 26.0, 8),
    "a workstation": machine(16, 50.0, 24),
}


def told(of: Machine) -> dict[RecommendedRole, Recommendation]:
    return {each.role: each for each in recommendations(of, Speeds({}))}


@pytest.mark.parametrize("of", MACHINES.values(), ids=MACHINES)
def test_a_handful_of_different_models_that_run_there(of: Machine) -> None:
    found = recommendations(of, Speeds({}))
    assert 4 <= len(found) <= MOST
    assert found[0].role is RecommendedRole.BALANCED
    assert len({each.name for each in found}) == len({each.role for each in found}) == len(found)
    for each in found:
        assert each.fit.badge in (Badge.CPU, Badge.GPU, Badge.SPLIT)
        assert each.reason == each.fit.reason
        model = curated().of_repo(each.repo)
        assert model is not None
        assert each.licence == model.licence
        drafts = {draft.name for draft, _ in curated().drafts_for(model)}
        assert each.draft is None or each.draft in drafts


def test_more_machine_gets_better_models() -> None:
    def level(of: Machine) -> int:
        model = curated().of_repo(told(of)[RecommendedRole.BALANCED].repo)
        assert model is not None
        return model.level

    levels = [level(MACHINES[name]) for name in ("a small laptop", "a workstation")]
    assert levels[0] < levels[1]


def test_a_draft_is_fetched_with_its_target() -> None:
    found = told(MACHINES["a gaming machine"])[RecommendedRole.FAST]
    assert found.draft is not None
    assert found.draft_repo is not None
    assert found.draft_variant == "Q8_0"
    alone = recommendations(MACHINES["a gaming machine"], Speeds({}), replace(curated(), pairs=()))
    assert not any(each.draft for each in alone)


def test_the_best_is_better_than_the_usual_one() -> None:
    for of in MACHINES.values():
        found = told(of)
        models = {role: curated().of_repo(each.repo) for role, each in found.items()}
        best, usual = models.get(RecommendedRole.BEST), models[RecommendedRole.BALANCED]
        assert best is None or (usual is not None and best.level > usual.level)


def test_no_model_is_the_best_where_none_is_better_than_the_usual_one() -> None:
    models = tuple(replace(each, level=min(each.level, 1)) for each in curated().models)
    equals = recommendations(
        MACHINES["a workstation"], Speeds({}), replace(curated(), models=models)
    )
    assert len(equals) > 1
    assert RecommendedRole.BEST not in {each.role for each in equals}


def test_what_is_good_at_something_is_recommended_for_that() -> None:
    found = told(MACHINES["a gaming machine"])
    for role, what in ((RecommendedRole.REASONING, "reasoning"), (RecommendedRole.CODE, "code")):
        model = curated().of_repo(found[role].repo)
        assert model is not None
        assert what in model.good_at


def test_a_machine_that_runs_nothing_gets_nothing() -> None:
    assert recommendations(machine(2, 0.05), Speeds({})) == []
