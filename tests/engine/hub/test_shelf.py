"""The list of all models that are kept, with what it tells of each."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from disk import into_lm_studio
from folder_models import FOLDER_DRAFT, FOLDER_TARGET
from head_folders import write_head

from engine.errors import UserFixable
from engine.hub.shelf.kept_model import KeptModel, ModelOrigin
from engine.hub.shelf.other_programs import FoundModel
from engine.hub.shelf.shelf import Descriptions, ModelShelf, Remembered, RememberedModels
from engine.model.families import open_config


def by_path(shelf: ModelShelf, *more: Path) -> dict[Path, KeptModel]:
    return {model.path: model for model in shelf.models(more, elsewhere=False)}


def test_the_bundled_models_are_there_with_all_columns(shelf: ModelShelf, shipped: Path) -> None:
    models = by_path(shelf)
    assert set(models) == {shipped / FOLDER_TARGET.name, shipped / FOLDER_DRAFT.name}
    target = models[shipped / FOLDER_TARGET.name]
    assert target.origin is ModelOrigin.BUNDLED
    assert target.family
    assert target.kind
    assert 5e6 < (target.parameters or 0) < 20e6
    assert target.context
    assert target.draft is not None
    assert not target.head
    assert not target.problem


def test_what_was_brought_is_remembered_with_where_it_came_from(
    shelf: ModelShelf, small_gguf: Path
) -> None:
    model = KeptModel(
        small_gguf, "", ModelOrigin.DOWNLOADED, 1, repo="a/b", revision="1" * 40, licence="mit"
    )
    shelf.keep(model)
    again = by_path(ModelShelf(shelf.folder.parent))[small_gguf]
    assert (again.origin, again.repo, again.revision) == (ModelOrigin.DOWNLOADED, "a/b", "1" * 40)
    assert (again.licence, again.kind, again.family) == ("mit", "Q8_0", "llama")
    assert again.weight_bytes > 1000
    assert again.gguf
    shelf.memory.forget(small_gguf)
    assert small_gguf not in by_path(shelf)


def test_a_folder_with_one_file_is_in_gguf_too(
    shelf: ModelShelf, small_gguf: Path, chat_model: Path, tmp_path: Path
) -> None:
    shutil.copy(small_gguf, tmp_path)
    models = by_path(shelf, tmp_path, chat_model)
    assert (models[tmp_path].gguf, models[tmp_path].kind) == (True, "Q8_0")
    assert not models[chat_model].gguf


def test_models_used_before_are_there_and_those_gone_are_not(
    shelf: ModelShelf, shipped: Path, small_gguf: Path, tmp_path: Path
) -> None:
    models = by_path(shelf, small_gguf, tmp_path / "gone.gguf", FOLDER_TARGET)
    assert models[small_gguf].origin is ModelOrigin.IN_PLACE
    assert models[shipped / FOLDER_TARGET.name].origin is ModelOrigin.BUNDLED
    assert FOLDER_TARGET not in models
    assert tmp_path / "gone.gguf" not in models


def test_a_broken_or_missing_one_is_told_with_its_problem(
    shelf: ModelShelf, chat_model: Path, tmp_path: Path
) -> None:
    broken = Path(shutil.copytree(chat_model, tmp_path / "broken"))
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    gone = tmp_path / "gone"
    for path in (broken, gone):
        shelf.keep(KeptModel(path, "", ModelOrigin.IN_PLACE, 0))
    models = by_path(shelf)
    assert models[broken].problem
    assert models[broken].weight_bytes > 1000
    assert models[broken].name == "broken"
    assert "no longer exists" in models[gone].problem


def test_a_head_is_told_as_such(shelf: ModelShelf, chat_model: Path, tmp_path: Path) -> None:
    head = write_head(tmp_path / "head", "dgf", open_config(chat_model))
    told = shelf.describe(head)
    assert told.head
    assert told.parameters is None
    assert not told.problem


def test_licences_come_from_the_card_beside_a_folder(chat_model: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(chat_model, tmp_path / "model"))
    for card, licence in (
        ("---\nlicense: apache-2.0\n---\nHello", "apache-2.0"),
        ("---\ntags: x\nlicense: 'MIT'\n---", "MIT"),
        ("---\ntags: x\n---\nlicense: none of it", ""),
        ("license: mit", ""),
    ):
        (folder / "README.md").write_text(card)
        told = Descriptions().of(FoundModel(folder, ModelOrigin.IN_PLACE))
        assert told.licence == licence


def test_headers_are_read_again_only_when_files_change(
    chat_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.model.local_model import LocalModel

    reads: list[Path] = []
    honest = LocalModel.inspect

    def counting(path: Path) -> LocalModel:
        reads.append(path)
        return honest(path)

    monkeypatch.setattr(LocalModel, "inspect", counting)
    folder = Path(shutil.copytree(chat_model, tmp_path / "model"))
    described, found = Descriptions(), FoundModel(folder, ModelOrigin.IN_PLACE)
    first = described.of(found)
    other = described.of(FoundModel(folder, ModelOrigin.CACHE, name="x", repo="a/b"))
    assert reads == [folder]
    assert (other.name, other.repo, other.kind) == ("x", "a/b", first.kind)
    (folder / "duotail.json").write_text('{"name": "Another name"}')
    assert described.of(found).name == "Another name"


def test_other_programs_models_are_told_once(
    shelf: ModelShelf, small_gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    monkeypatch.setattr(Path, "home", lambda: home)
    file = into_lm_studio(home / ".lmstudio" / "models", "a/b", small_gguf)
    models = [model for model in shelf.models([file]) if model.path == file]
    assert [model.origin for model in models] == [ModelOrigin.LM_STUDIO]
    shelf.keep(models[0])
    assert [model.path for model in shelf.models([file])].count(file) == 1


def test_a_damaged_list_is_kept_beside_and_a_new_one_begins(
    shelf: ModelShelf, small_gguf: Path
) -> None:
    file = shelf.memory.file
    file.parent.mkdir(parents=True)
    for damaged in ("", "{", '{"version": 1, "models": 3}', "[" * 100_000, "\udcff"):
        file.write_text(damaged, errors="surrogateescape")
        assert shelf.memory.all() == ()
        assert not file.exists()
        assert file.with_suffix(".bad").exists()
    shelf.keep(KeptModel(small_gguf, "", ModelOrigin.IN_PLACE, 0))
    assert len(shelf.memory.all()) == 1
    assert json.loads(file.read_text())["version"] == 1
    assert [entry.name for entry in file.parent.iterdir() if entry.suffix == ".part"] == []


def test_a_list_that_cannot_be_opened_is_as_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memory = RememberedModels(tmp_path / "data")
    memory.file.mkdir(parents=True)
    assert memory.all() == ()
    assert "cannot be opened" in caplog.text


def test_a_list_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_text("a file where a folder should be")
    with pytest.raises(UserFixable, match="could not be saved"):
        RememberedModels(data).remember(Remembered("/x", ModelOrigin.IN_PLACE))


def test_the_one_brought_last_comes_first_and_each_once(tmp_path: Path) -> None:
    memory = RememberedModels(tmp_path / "data")
    for name in ("a", "b", "a"):
        memory.remember(Remembered(f"/{name}", ModelOrigin.COPIED, hashes={"x": "y"}))
    assert [each.path for each in memory.all()] == ["/a", "/b"]
    assert memory.all()[0].hashes == {"x": "y"}
