"""Drafts that lie on this disk are found for a target, and used without being asked for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from folder_models import FOLDER_DRAFT, FOLDER_TARGET
from gguf_models import Kind, write_gguf
from head_folders import write_head
from machines import machine_with
from tiny_models import write_chat_model

from engine.backend.cpu import native_is_built
from engine.commands import DraftChoice, Load, Mode
from engine.events import DraftHere
from engine.hub import own_drafts
from engine.hub.own_drafts import drafts_here, made_for
from engine.hub.shelf.kept_model import ModelOrigin
from engine.hub.shelf.shelf import Remembered, RememberedModels
from engine.loading.planned_load import plan_load
from engine.model.families import open_config
from engine.model.local_model import LocalModel

GIB = 2**30
PLENTY = machine_with(64 * GIB)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A file with other models beside it."""
    folder = write_chat_model(tmp_path / "made" / "target", hidden_size=96, num_hidden_layers=6)
    (tmp_path / "models").mkdir()
    return write_gguf(folder, tmp_path / "models" / "Target-2B-Q8_0.gguf", Kind.Q8_0)


def small(target: Path, name: str, layers: int = 1) -> Path:
    folder = write_chat_model(
        target.parents[1] / "made" / name, hidden_size=32, num_hidden_layers=layers
    )
    return write_gguf(folder, target.with_name(name), Kind.Q8_0)


def found(target: Path) -> tuple[Path, ...]:
    model = LocalModel.inspect(target)
    own_drafts._known.clear()
    return tuple(each.path for each in drafts_here(model, lambda: model.tokenizer().vocabulary))


def test_a_small_model_beside_the_target_is_found(target: Path) -> None:
    assert found(target) == ()
    larger, least = small(target, "larger.gguf", 3), small(target, "least.gguf")
    assert found(target) == (least, larger)
    assert found(least) == ()  # nothing is small enough for it


def test_what_cannot_draft_is_passed_over(target: Path) -> None:
    other = Path(shutil.copytree(target.parents[1] / "made" / "target", target.with_name("other")))
    described = json.loads((other / "tokenizer.json").read_text(encoding="utf-8"))
    names = list(described["model"]["vocab"])
    described["model"]["vocab"] = {name: place for place, name in enumerate(reversed(names))}
    (other / "tokenizer.json").write_text(json.dumps(described), encoding="utf-8")
    target.with_name("broken.gguf").write_bytes(b"GGUF and no more")
    shutil.copy(target, target.with_name("twin.gguf"))
    assert found(target) == ()


def test_a_head_goes_first_where_it_names_its_target(target: Path) -> None:
    config = open_config(target.parents[1] / "made" / "target")
    least = small(target, "least.gguf")
    strange = write_head(target.with_name("strange"), "dgf", config)
    assert found(target) == (least,)
    head = write_head(target.with_name("head"), "dgf", config)
    said = json.loads((head / "config.json").read_text())
    said["duotail_head"]["target"] = "somebody/Target 2B"
    (head / "config.json").write_text(json.dumps(said))
    assert found(target) == (head, least)
    assert strange not in found(target)


def test_names_of_targets(target: Path) -> None:
    model = LocalModel.inspect(target)
    assert made_for("owner/target-2b", model)
    assert not made_for("owner/target-7b", model)
    assert not made_for("", model)


@pytest.mark.skipif(not native_is_built(), reason="the native library is not built")
def test_a_load_uses_it_and_tells_its_name(target: Path) -> None:
    small(target, "least.gguf")
    own_drafts._known.clear()
    planned = plan_load(Load(target, mode=Mode.CPU), PLENTY)
    assert planned.summary.draft == "least + lookup"
    assert plan_load(Load(target, draft=DraftChoice.LOOKUP), PLENTY).inspection.drafts == ()
    assert plan_load(Load(target, draft=DraftChoice.NONE), PLENTY).summary.draft is None


def test_a_models_own_draft_is_not_replaced() -> None:
    own_drafts._known.clear()
    planned = plan_load(Load(FOLDER_TARGET, mode=Mode.CPU), PLENTY)
    assert [each.model.path for each in planned.inspection.drafts] == [FOLDER_DRAFT]
    assert found(FOLDER_TARGET) == (FOLDER_DRAFT,)


def test_what_was_found_just_now_needs_no_headers(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load has often looked for drafts; the list of them then costs next to nothing."""
    least = small(target, "least.gguf")
    found(target)
    monkeypatch.setattr(LocalModel, "inspect", lambda _path: pytest.fail("nobody needs it"))
    assert drafts_here(target, dict) == (DraftHere(least, "least"),)


def test_a_draft_may_lie_in_another_folder(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one of a model that Duotail has been shown."""
    made = small(target, "least.gguf")
    (target.parents[1] / "elsewhere").mkdir()
    far = Path(shutil.move(made, target.parents[1] / "elsewhere" / "far.gguf"))
    assert found(target) == ()
    data = target.parents[1] / "data"
    monkeypatch.setenv("DUOTAIL_DATA_DIR", str(data))
    RememberedModels(data).remember(Remembered(str(far), ModelOrigin.IN_PLACE))
    model = LocalModel.inspect(target)
    here = drafts_here(model, lambda: model.tokenizer().vocabulary)
    assert here == (DraftHere(far, "far"),), "though it was looked for just now"
