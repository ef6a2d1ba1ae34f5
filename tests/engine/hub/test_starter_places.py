"""Where the starter model may lie, and what it finds there: a small file stands for it."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from folder_models import FOLDER_DRAFT
from gguf_models import Kind, write_gguf

from engine.errors import Absent
from engine.hub import starter
from engine.hub.local import bundled_models, default_target, resolve_model
from engine.hub.shelf.kept_model import ModelOrigin
from engine.hub.shelf.shelf import ModelShelf
from engine.model import bundled
from engine.model.local_model import LocalModel


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What ships: the sidecar's folder, and a draft beside it; no model, no other default."""
    root = tmp_path / "shipped"
    ignored = shutil.ignore_patterns("*.gguf")
    shutil.copytree(bundled.starter_folder(), root / bundled.STARTER_FOLDER, ignore=ignored)
    (root / f"{bundled.STARTER_FOLDER}-draft").symlink_to(FOLDER_DRAFT)
    monkeypatch.setattr("engine.model.bundled.root", lambda: root)
    monkeypatch.delenv("DUOTAIL_DEFAULT_MODEL")
    return root / bundled.STARTER_FOLDER


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small draft's own weights, in a file of the starter model's name."""
    return write_gguf(
        FOLDER_DRAFT, tmp_path_factory.mktemp("model") / bundled.STARTER.name, Kind.Q8_0
    )


@pytest.fixture(autouse=True)
def _pinned(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(bundled.STARTER, nbytes=model.stat().st_size)
    monkeypatch.setattr(bundled, "STARTER", small)


def put(model: Path, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(model, folder))


def in_cache() -> Path:
    """Where a download from the hub puts it."""
    repository = f"models--{starter.REPO.replace('/', '--')}"
    return Path(os.environ["HF_HOME"]) / "hub" / repository / "snapshots" / starter.REVISION


@pytest.mark.usefixtures("folder")
def test_without_it_the_default_is_refused_in_words() -> None:
    assert starter.starter_path() is None
    with pytest.raises(Absent, match="not on this computer"):
        default_target()
    assert bundled.STARTER_FOLDER not in bundled_models()


def test_set_up_puts_it_beside_its_sidecar(folder: Path, model: Path) -> None:
    file = put(model, folder)
    assert starter.starter_path() == file
    assert default_target() == resolve_model(bundled.STARTER_FOLDER) == resolve_model(None) == file


@pytest.mark.parametrize("where", ["own folder", "cache"])
def test_elsewhere_it_has_its_name_and_its_draft_all_the_same(
    folder: Path, model: Path, where: str
) -> None:
    file = put(model, starter.own_folder() if where == "own folder" else in_cache())
    assert starter.starter_path() == default_target() == file
    found = LocalModel.inspect(file)
    assert found.name == starter.NAME
    assert found.draft == FOLDER_DRAFT.resolve()
    assert folder.exists()


def test_a_folder_or_a_cache_that_the_settings_name_is_looked_in(
    folder: Path, model: Path, tmp_path: Path
) -> None:
    assert not (folder / bundled.STARTER.name).exists()
    mine = put(model, starter.own_folder(tmp_path / "data"))
    assert starter.starter_path() is None
    assert starter.starter_path(tmp_path / "data") == mine


def test_a_file_that_is_cut_short_is_passed_over(folder: Path, model: Path) -> None:
    half = put(model, folder)
    half.write_bytes(half.read_bytes()[:-1])
    whole = put(model, starter.own_folder())
    assert starter.starter_path() == whole


def test_a_sidecar_of_the_users_own_comes_first(folder: Path, model: Path) -> None:
    file = put(model, starter.own_folder())
    file.with_name("duotail.json").write_text('{"name": "Mine"}')
    found = LocalModel.inspect(file)
    assert (found.name, found.draft) == ("Mine", None)
    assert folder.exists()


def test_another_file_has_neither_name_nor_draft_of_it(
    folder: Path, model: Path, tmp_path: Path
) -> None:
    other = put(model, tmp_path / "other").rename(tmp_path / "other" / "another.gguf")
    assert folder.exists()
    assert LocalModel.inspect(other).draft is None
    assert LocalModel.inspect(other).name != starter.NAME


def test_the_list_knows_which_repository_it_is_of(
    folder: Path, model: Path, tmp_path: Path
) -> None:
    """So that nobody is offered the same draft again."""
    file = put(model, folder)
    listed = ModelShelf(tmp_path / "data").models([file], elsewhere=False)
    (kept,) = [each for each in listed if each.path == file]
    assert (kept.origin, kept.repo, kept.licence) == (
        ModelOrigin.BUNDLED, starter.REPO, starter.LICENCE
    )  # fmt: skip
