"""The list of models and drafts that ships: well formed, and right as far as arithmetic tells."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pytest

from engine.commands import WeightFormat
from engine.hub.curated import CuratedModel, CuratedPair, curated
from engine.hub.predictions import Predictions
from engine.hub.recommendations import recommendations
from engine.hub.sketch import in_format, usual_bytes
from engine.machine.facts import Host, Machine
from engine.machine.speeds import Speeds
from engine.model.families import READERS
from engine.plan.footprint import footprint, weight_count

MODELS = {model.key: model for model in curated().models}
FAMILIES = (
    *("Qwen3", "Qwen3.5", "Qwen3.6", "Qwen3.8", "Qwen2.5", "Llama 3", "SmolLM2", "SmolLM3"),
    *("Gemma 3", "Mistral", "Phi", "gpt"),
)


def test_it_is_dated_and_every_key_is_there_once() -> None:
    assert dt.date.fromisoformat(curated().dated).year >= 2026
    assert len(MODELS) == len(curated().models)
    for family in FAMILIES:
        assert any(model.name.startswith(family) for model in MODELS.values()), family


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_an_entry_is_well_formed(model: CuratedModel) -> None:
    assert model.family in READERS
    for repo in model.repositories:
        owner, _, name = repo.partition("/")
        assert owner, repo
        assert name, repo
        assert "/" not in name
    assert all("gguf" in repo.lower() for repo in model.gguf)
    assert model.gguf, "every model has a quantised version"
    assert model.licence
    assert 0 <= model.level <= 100
    assert set(model.good_at) <= {"chat", "reasoning", "code"}
    assert bool(model.level) or not model.good_at, "what only drafts is good at nothing else"
    assert set(model.checked) <= {"shape", *model.repositories}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_a_shape_comes_to_the_published_number_of_parameters(model: CuratedModel) -> None:
    assert weight_count(model.config) == model.parameters
    assert model.config.max_positions == model.context


@pytest.mark.parametrize("pair", curated().pairs, ids=lambda pair: f"{pair.target}-{pair.draft}")
def test_a_pair_has_one_vocabulary_or_says_why_not(pair: CuratedPair) -> None:
    target, draft = MODELS[pair.target], MODELS[pair.draft]
    assert draft.parameters < target.parameters
    assert target.config.vocab_size == draft.config.vocab_size or pair.note


def test_heads_name_models_of_the_list() -> None:
    for head in curated().heads:
        assert head.target in MODELS
        assert head.kind in ("dgf", "linear", "eagle3")
        assert set(head.checked) <= {head.repo}


def test_no_model_drafts_for_itself_and_no_pair_is_there_twice() -> None:
    pairs = [(pair.target, pair.draft) for pair in curated().pairs]
    assert len(pairs) == len(set(pairs))
    assert all(target != draft for target, draft in pairs)


def test_a_model_is_known_by_any_of_its_repositories_and_by_its_shape() -> None:
    model = MODELS["qwen3-8b"]
    assert curated().of_repo("qwen/qwen3-8B") is model
    assert curated().of_repo(None, "Qwen/Qwen3-8B-GGUF") is model
    assert curated().of_repo("Qwen/Qwen3-9B") is None
    padded = replace(model.config, vocab_size=model.config.vocab_size + 128)
    assert curated().of_config(padded) is model
    fewer = replace(model.config.typical, kv_heads=4)
    others = replace(model.config, blocks=(fewer,) * model.config.num_layers)
    assert curated().of_config(others) is None
    with pytest.raises(KeyError):
        curated().model("no such model")


def test_drafts_come_in_the_order_of_the_list() -> None:
    drafts = [draft.key for draft, _ in curated().drafts_for(MODELS["qwen3-14b"])]
    assert drafts == ["qwen3-0.6b", "qwen3-1.7b"]
    assert curated().heads_for(MODELS["qwen3-14b"])


def test_the_starter_drafts_for_larger_models_of_its_family() -> None:
    listed = curated()
    for key in ("smollm2-360m", "smollm2-1.7b"):
        drafts = [draft.key for draft, _ in listed.drafts_for(listed.model(key))]
        assert drafts[0] == "smollm2-135m"


def test_models_with_a_head_of_their_own_are_predicted_with_it() -> None:
    """The head's bytes are in the files, it makes answers faster, and nobody has to fetch it."""
    model = MODELS["qwen3.5-4b"]
    without = replace(model, mtp=False)
    assert 0.02 < usual_bytes(model, "Q4_K_M") / usual_bytes(without, "Q4_K_M") - 1 < 0.05
    host = Host(8, 32 << 30, 24 << 30, instruction_sets=("avx2",))
    predictions = Predictions(Machine(host, ()), Speeds({}))
    own, plain = (predictions.listed(each, "Q4_K_M").plan for each in (model, without))
    assert own is not None
    assert plain is not None
    assert own.draft == 0
    assert plain.draft is None
    assert plain.tokens_per_s is not None
    assert (own.tokens_per_s or 0) > 1.3 * plain.tokens_per_s
    recommended = [
        each
        for each in recommendations(Machine(host, ()), Speeds({}))
        if "Qwen3.5" in each.name or "Qwen3.6" in each.name
    ]
    assert recommended
    assert not any(each.draft_repo for each in recommended)


def test_the_planned_bytes_of_blocks_with_states_are_their_own() -> None:
    """Not those of the first block, which keeps a state, for all of them."""
    config = MODELS["qwen3.5-9b"].config
    sketched, whole = in_format(config, WeightFormat.Q4), footprint(config, WeightFormat.Q4)
    assert sketched.blocks == whole.blocks
    assert sketched.states == whole.states
