"""The starter model drafts for larger models of its family, where it is here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from folder_models import FOLDER_DRAFT
from hollow_models import write_hollow_model
from machines import machine_with

from engine.commands import DraftChoice, Load
from engine.hub.curated import curated
from engine.loading.inspection import Inspection

SMOLLM2_360M = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 960,
    "intermediate_size": 2560, "num_hidden_layers": 32, "num_attention_heads": 15,
    "num_key_value_heads": 5, "vocab_size": 49152, "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5, "rope_theta": 100000.0, "tie_word_embeddings": True,
    "eos_token_id": 2, "hidden_act": "silu",
}  # fmt: skip
SMOLLM2_1_7B = SMOLLM2_360M | {
    "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 24,
    "num_attention_heads": 32, "num_key_value_heads": 32,
}  # fmt: skip


@pytest.fixture
def small_starter(monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small draft stands for the starter model: it speaks the tokens of hollow models."""
    monkeypatch.setattr("engine.hub.starter.starter_path", lambda: FOLDER_DRAFT)
    return FOLDER_DRAFT


def draft_of(load: Load) -> Path | None:
    draft = Inspection.of(load, machine_with(16 * 2**30)).draft
    return None if draft is None else draft.model.path


@pytest.mark.parametrize("config", [SMOLLM2_360M, SMOLLM2_1_7B])
def test_whoever_has_a_larger_one_has_its_draft(
    config: dict[str, object], tmp_path: Path, small_starter: Path
) -> None:
    target = write_hollow_model(tmp_path / "larger", config)
    assert draft_of(Load(target)) == small_starter
    assert draft_of(Load(target, draft=DraftChoice.LOOKUP)) is None
    assert draft_of(Load(target, draft=DraftChoice.NONE)) is None


def test_without_the_starter_model_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.hub.starter.starter_path", lambda: None)
    assert draft_of(Load(write_hollow_model(tmp_path / "larger", SMOLLM2_360M))) is None


@pytest.mark.usefixtures("small_starter")
def test_a_model_of_the_same_shape_with_other_tokens_has_none(tmp_path: Path) -> None:
    target = write_hollow_model(tmp_path / "tuned", SMOLLM2_360M)
    file = target / "tokenizer.json"
    described = json.loads(file.read_text("utf-8"))
    names = sorted(described["model"]["vocab"], key=described["model"]["vocab"].get)
    described["model"]["vocab"] |= {names[1000]: 1001, names[1001]: 1000}
    described["model"]["merges"] = []
    file.write_text(json.dumps(described), "utf-8")
    assert draft_of(Load(target)) is None


@pytest.mark.usefixtures("small_starter")
def test_a_model_of_another_shape_has_none(tmp_path: Path) -> None:
    target = write_hollow_model(tmp_path / "other", SMOLLM2_360M | {"num_hidden_layers": 31})
    assert draft_of(Load(target)) is None


def test_the_list_names_it_as_the_draft_of_both() -> None:
    listed = curated()
    for key in ("smollm2-360m", "smollm2-1.7b"):
        drafts = [draft.key for draft, _ in listed.drafts_for(listed.model(key))]
        assert drafts[0] == "smollm2-135m"
