"""Drafts that propose some tokens only, of every kind, and their folders in GGUF, in a load."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_session import Session
from folder_models import FOLDER_DRAFT, FOLDER_TARGET
from head_folders import change_tensors, write_head
from machines import machine_with
from reduced_drafts import write_packed, write_reduced

from engine.backend.cpu import native_is_built
from engine.commands import Load, Mode, WeightFormat
from engine.errors import NotPossible, UserFixable
from engine.events import Finished
from engine.hub.shelf.other_programs import ShelfSearch
from engine.loading.planned_load import plan_load
from engine.model.config import ModelConfig
from engine.model.families import open_config
from engine.model.local_model import LocalModel
from engine.model.model_files import PACKED, chosen_file, own_files
from engine.model.tensors import EMBEDDING, HEAD, HEAD_IDS
from engine.model.text import shortlist
from engine.request import SamplingParams

pytestmark = pytest.mark.skipif(not native_is_built(), reason="the native library is not built")

GIB = 2**30
PLENTY = machine_with(64 * GIB)
HOT = SamplingParams(temperature=3.0, seed=5)
"""The noise decides, and draft and target share it: even a random draft is right now and then."""
MODES: dict[str, dict[str, Any]] = {
    "cpu": {"mode": Mode.CPU},
    "draft there": {"mode": Mode.DOVETAIL, "simulate_gpu": GIB, "layers_on_gpu": 0},
    "lane": {"mode": Mode.DUO, "simulate_gpu": GIB},
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A head and a model of few rows, in safetensors and packed."""
    root, config = tmp_path_factory.mktemp("reduced"), open_config(FOLDER_TARGET)
    found = {
        "head": write_head(root / "head", "our reduced dgf", config),
        "model": write_reduced(root / "model", FOLDER_TARGET),
    }
    kinds = {"head": "q4_1", "model": "q8_0"}
    for name, kind in kinds.items():
        packed = root / f"packed {name}"
        write_packed(found[name], packed, kind)
        found[packed.name] = packed
    return found


def story(session: Session) -> Finished:
    return session.ask("Tell me a story about a fox.", sampling=HOT, max_tokens=40)


@pytest.mark.parametrize("draft", ["head", "model", "packed head", "whole"])
def test_frequent_tokens_are_looked_for_only_where_rows_go(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch, draft: str
) -> None:
    """It takes as long as all else of a plan, and drafts that name their rows do without."""
    monkeypatch.setattr(shortlist, "_by_frequency", lambda _: pytest.fail("nobody asked"))
    path = folders.get(draft, FOLDER_DRAFT)
    assert plan_load(Load(FOLDER_TARGET, path, Mode.CPU), PLENTY).draft is not None


@pytest.fixture(scope="module")
def reference() -> Finished:
    session = Session()
    try:
        session.load(FOLDER_TARGET, mode=Mode.PLAIN)
        return story(session)
    finally:
        session.close()


DRAFTS = ("head", "packed head", "model", "packed model")
WAYS = [(name, mode) for name in DRAFTS for mode in MODES if mode != "lane" or "model" in name]
"""Heads draft from what verifying computes, so they have no lane of their own."""


@pytest.mark.release(keep=5, reason="every draft everywhere")
@pytest.mark.parametrize(("name", "mode"), WAYS)
def test_the_text_is_the_targets_own(
    session: Session, folders: dict[str, Path], reference: Finished, name: str, mode: str
) -> None:
    session.load(FOLDER_TARGET, draft=folders[name], **MODES[mode])
    written = story(session)
    assert written.token_ids == reference.token_ids
    assert written.stats.drafted > 0
    assert sum(written.stats.accepted_by_depth) > 0


@pytest.mark.parametrize("name", ["packed head", "packed model"])
def test_packed_matrices_are_held_as_they_are_stored(folders: dict[str, Path], name: str) -> None:
    draft = plan_load(Load(FOLDER_TARGET, folders[name]), PLENTY).draft
    assert draft is not None
    assert draft.format is WeightFormat.STORED
    kinds = {draft.weights.kind(each) for each in draft.weights.names() if each not in draft.lent}
    assert kinds - {"F32"} == {"Q4_1" if "head" in name else "Q8_0"}


# -- what is read, and what is refused ---------------------------------------------------------


def test_the_tensors_of_a_packed_draft(folders: dict[str, Path]) -> None:
    target = LocalModel.inspect(FOLDER_TARGET)
    assert isinstance(target.config, ModelConfig)
    both = []
    for name in ("model", "packed model"):
        draft = plan_load(Load(FOLDER_TARGET, folders[name]), PLENTY).draft
        assert draft is not None
        both.append(draft.weights)
    plain, packed = both
    assert set(plain.names()) == set(packed.names())
    for name in plain.names():
        right, found = plain.float32(name), packed.float32(name)
        if right.ndim == 1:
            np.testing.assert_array_equal(found, right, err_msg=name)
        else:
            assert np.abs(found - right).max() < 0.01 * np.abs(right).max(), name
    assert len(packed.float32(HEAD_IDS)) == packed.shape(HEAD)[0] < packed.shape(EMBEDDING)[0]


@pytest.mark.parametrize("name", ["model", "packed model", "packed head"])
def test_such_a_draft_is_no_chat_model(folders: dict[str, Path], name: str) -> None:
    with pytest.raises(NotPossible, match="Some target") as refused:
        plan_load(Load(folders[name]), PLENTY)
    assert "as its draft" in refused.value.remedy


def test_the_file_alone_is_no_model(folders: dict[str, Path]) -> None:
    with pytest.raises(UserFixable, match="only drafts for another model"):
        plan_load(Load(folders["packed head"] / PACKED), PLENTY)


def changed(draft: Path, change: dict[str, Any]) -> Path:
    """The draft with other words in its config.json."""
    config = json.loads((draft / "config.json").read_text())
    config["duotail_draft"] |= change
    (draft / "config.json").write_text(json.dumps(config))
    return draft


def test_a_target_of_another_vocabulary(tmp_path: Path) -> None:
    draft = changed(write_reduced(tmp_path / "draft", FOLDER_TARGET), {"vocabulary": "another"})
    with pytest.raises(NotPossible, match="different vocabularies"):
        plan_load(Load(FOLDER_TARGET, draft), PLENTY)


def test_ids_beyond_the_target_s_are_another_vocabulary(tmp_path: Path) -> None:
    draft = write_reduced(tmp_path / "draft", FOLDER_TARGET)
    most = open_config(FOLDER_TARGET).vocab_size
    change_tensors(draft, lambda tensors: tensors[HEAD_IDS].fill(most))
    with pytest.raises(UserFixable):
        plan_load(Load(FOLDER_TARGET, draft), PLENTY)


def test_ids_that_are_none(tmp_path: Path) -> None:
    draft = write_reduced(tmp_path / "draft", FOLDER_TARGET)
    change_tensors(draft, lambda tensors: tensors[HEAD_IDS].fill(1 << 30))
    with pytest.raises(UserFixable, match="tokens that the model does not have"):
        LocalModel.inspect(draft)


@pytest.mark.parametrize(
    "change", [{"rows": 0}, {"rows": 1 << 30}, {"rows": None}, {"vocabulary": None}]
)
def test_a_config_that_cannot_be_right(tmp_path: Path, change: dict[str, Any]) -> None:
    draft = changed(write_reduced(tmp_path / "draft", FOLDER_TARGET), change)
    with pytest.raises(UserFixable, match=r"config\.json is not usable"):
        LocalModel.inspect(draft)


def test_a_packed_folder_is_found_and_copied_as_a_whole(folders: dict[str, Path]) -> None:
    folder = folders["packed model"]
    assert chosen_file(folder) is None
    assert {file.name for file in own_files(folder)} == {"config.json", PACKED}
    assert list(ShelfSearch().models_below(folder, 0)) == [folder]


def test_a_damaged_packed_file(folders: dict[str, Path], tmp_path: Path) -> None:
    packed = tmp_path / "packed"
    file = write_packed(folders["model"], packed, "q4_0")
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(UserFixable, match="incomplete"):
        LocalModel.inspect(packed)
