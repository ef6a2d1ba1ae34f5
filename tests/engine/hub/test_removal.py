"""Deleting, moving and protecting models: their own files, exactly, and nothing else."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from disk import COMMIT, OTHER_COMMIT, below, into_cache, into_ollama, needs_links

from engine.errors import Cancelled, NotPossible, UserFixable
from engine.hub.local import default_target
from engine.hub.shelf.kept_model import KeptModel, ModelOrigin
from engine.hub.shelf.relocation import import_copy, import_in_place, move
from engine.hub.shelf.removal import delete, deletion, protect
from engine.hub.shelf.shelf import ModelShelf
from engine.model.local_model import LocalModel
from engine.model.model_files import own_files


def nobody(_share: float) -> None:
    """Hears nothing."""


def never() -> bool:
    return False


def copied(path: Path, shelf: ModelShelf) -> KeptModel:
    return import_copy(path, shelf, nobody, never)


def cached(path: Path, **more: object) -> KeptModel:
    return KeptModel(path, path.name, ModelOrigin.CACHE, 1, **more)  # type: ignore[arg-type]


def bytes_below(folder: Path) -> int:
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files)


# ---- deleting --------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["folder", "file", "split"])
def test_a_copy_goes_with_its_folder(
    shelf: ModelShelf, chat_model: Path, small_gguf: Path, split_gguf: Path, which: str
) -> None:
    source = {"folder": chat_model, "file": small_gguf, "split": split_gguf}[which]
    model = copied(source, shelf)
    told = deletion(model, shelf)
    assert told.nbytes == bytes_below(shelf.folder)
    assert delete(told, shelf) == told.nbytes
    assert below(shelf.folder) == set()
    assert shelf.memory.all() == ()
    assert LocalModel.inspect(source)


def test_what_others_have_put_there_stays(shelf: ModelShelf, small_gguf: Path) -> None:
    model = copied(small_gguf, shelf)
    (model.path.parent / "notes.txt").write_text("mine")
    shutil.copy(small_gguf, model.path.parent / "other.gguf")
    delete(deletion(model, shelf), shelf)
    assert below(model.path.parent) == {"notes.txt", "other.gguf"}


def test_of_a_model_in_place_only_its_own_files_go(
    shelf: ModelShelf, chat_model: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(chat_model, tmp_path / "my own"))
    (folder / "thesis.txt").write_text("years of work")
    told = deletion(import_in_place(folder, shelf), shelf)
    assert delete(told, shelf) == told.nbytes > 0
    assert shelf.memory.all() == ()
    assert below(folder) == {"thesis.txt"}


@needs_links
def test_of_a_link_only_the_link_goes(shelf: ModelShelf, small_gguf: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.gguf"
    link.symlink_to(small_gguf)
    told = deletion(import_in_place(link, shelf), shelf)
    assert told.nbytes == 0
    delete(told, shelf)
    assert not link.is_symlink()
    assert small_gguf.is_file()


def test_a_broken_copy_can_be_deleted(shelf: ModelShelf, chat_model: Path) -> None:
    model = copied(chat_model, shelf)
    (model.path / "config.json").unlink()
    told = deletion(shelf.describe(model.path), shelf)
    assert delete(told, shelf) == told.nbytes > 0
    assert below(shelf.folder) == set()


def test_a_broken_model_elsewhere_stays_and_what_cannot_be_deleted_is_told(
    shelf: ModelShelf, chat_model: Path, tmp_path: Path
) -> None:
    elsewhere = Path(shutil.copytree(chat_model, tmp_path / "my own"))
    model = import_in_place(elsewhere, shelf)
    told = deletion(model, shelf)
    (elsewhere / "config.json").unlink()
    with pytest.raises(UserFixable, match="cannot tell which files belong to"):
        deletion(model, shelf)
    weights = elsewhere / "model.safetensors"
    weights.unlink()
    weights.mkdir()
    with pytest.raises(UserFixable, match=r"model\.safetensors could not be deleted"):
        delete(told, shelf)
    assert [each.path for each in shelf.memory.all()] == [str(elsewhere)]


def test_one_that_is_gone_already_is_forgotten(shelf: ModelShelf, small_gguf: Path) -> None:
    model = copied(small_gguf, shelf)
    shutil.rmtree(model.path.parent)
    told = deletion(model, shelf)
    assert not told.files
    assert delete(told, shelf, [model.path]) == 0
    assert shelf.memory.all() == ()


def test_models_of_others_are_theirs(shelf: ModelShelf, small_gguf: Path) -> None:
    for origin, word in (
        (ModelOrigin.BUNDLED, "comes with Duotail"),
        (ModelOrigin.OLLAMA, "belongs to Ollama"),
        (ModelOrigin.LM_STUDIO, "belongs to LM Studio"),
    ):
        with pytest.raises(NotPossible, match=word):
            deletion(KeptModel(small_gguf, "x", origin, 1), shelf)


def test_ollamas_own_file_stays_ollamas(
    shelf: ModelShelf, small_gguf: Path, tmp_path: Path
) -> None:
    blob = into_ollama(tmp_path, "registry.ollama.ai/library/x", "1", small_gguf)
    model = import_in_place(blob, shelf)
    assert model.origin is ModelOrigin.IN_PLACE
    with pytest.raises(NotPossible, match="belongs to Ollama"):
        deletion(model, shelf)
    with pytest.raises(NotPossible, match="cannot be moved"):
        move(model, tmp_path / "there", shelf, nobody, never)
    shelf.memory.forget(model.path)
    assert blob.is_file()
    assert shelf.memory.all() == ()


# ---- the hub's cache -------------------------------------------------------------------------


@needs_links
def test_the_last_model_of_a_repository_takes_it_along(
    shelf: ModelShelf, chat_model: Path, tmp_path: Path
) -> None:
    snapshot = into_cache(tmp_path, "a/b", own_files(chat_model))
    into_cache(tmp_path, "c/d", own_files(chat_model))
    repository = tmp_path / "models--a--b"
    abandoned = repository / "blobs" / "half.incomplete"
    abandoned.write_bytes(b"x" * 77)
    os.utime(abandoned, (0, 0))
    (repository / ".no_exist" / COMMIT).mkdir(parents=True)
    (repository / ".no_exist" / COMMIT / "adapter_config.json").touch()
    told = deletion(cached(snapshot), shelf)
    assert told.nbytes == bytes_below(repository / "blobs")
    assert delete(told, shelf) >= told.nbytes
    assert below(tmp_path / "models--a--b") == set()
    assert not repository.exists()
    assert LocalModel.inspect(tmp_path / "models--c--d" / "snapshots" / COMMIT)


@needs_links
def test_a_download_that_goes_on_keeps_what_it_has(
    shelf: ModelShelf, chat_model: Path, tmp_path: Path
) -> None:
    snapshot = into_cache(tmp_path, "a/b", own_files(chat_model))
    half = snapshot.parent.parent / "blobs" / "half.incomplete"
    half.write_bytes(b"x" * 77)
    delete(deletion(cached(snapshot), shelf), shelf)
    assert half.read_bytes() == b"x" * 77
    assert below(half.parent) == {half.name}


@needs_links
def test_another_revision_keeps_its_blobs(
    shelf: ModelShelf, chat_model: Path, other_chat_model: Path, tmp_path: Path
) -> None:
    old = into_cache(tmp_path, "a/b", own_files(other_chat_model), OTHER_COMMIT)
    new = into_cache(tmp_path, "a/b", own_files(chat_model), COMMIT)
    before = bytes_below(tmp_path)
    told = deletion(cached(new), shelf)
    weights = (chat_model / "model.safetensors").stat().st_size
    assert weights <= told.nbytes < 1.1 * weights, "the tokenizer is that of both"
    delete(told, shelf)
    assert before - bytes_below(tmp_path) >= told.nbytes
    assert not new.exists()
    assert LocalModel.inspect(old).tokenizer()
    assert not (tmp_path / "models--a--b" / "refs" / "main").exists(), "it named what is gone"


@needs_links
def test_another_quantisation_keeps_what_lies_beside_it(
    shelf: ModelShelf, small_gguf: Path, chat_model: Path, tmp_path: Path
) -> None:
    other = tmp_path / "babbler-other.gguf"
    other.write_bytes(small_gguf.read_bytes() + b"\0" * 64)
    pictures = tmp_path / "mmproj-babbler.gguf"
    pictures.write_bytes(b"GGUF")
    files = [small_gguf, other, pictures, chat_model / "config.json"]
    snapshot = into_cache(tmp_path / "hub", "a/b", files)
    told = deletion(cached(snapshot / small_gguf.name), shelf)
    assert told.nbytes == small_gguf.stat().st_size
    assert delete(told, shelf) == told.nbytes
    assert below(snapshot) == {other.name, pictures.name, "config.json"}
    last = deletion(cached(snapshot / other.name), shelf)
    delete(last, shelf)
    assert not (tmp_path / "hub" / "models--a--b").exists()


@needs_links
def test_a_link_out_of_the_cache_costs_nobody_a_file(
    shelf: ModelShelf, chat_model: Path, small_gguf: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "mine.gguf"
    shutil.copy(small_gguf, mine)
    snapshot = into_cache(tmp_path / "hub", "a/b", own_files(chat_model))
    (snapshot / "mine.gguf").symlink_to(mine)
    (snapshot / "folder").symlink_to(chat_model, target_is_directory=True)
    delete(deletion(cached(snapshot), shelf), shelf)
    assert mine.is_file()
    assert LocalModel.inspect(chat_model)


def test_a_cache_without_links_gives_back_its_copies(
    shelf: ModelShelf, chat_model: Path, tmp_path: Path
) -> None:
    snapshot = tmp_path / "models--a--b" / "snapshots" / COMMIT
    shutil.copytree(chat_model, snapshot)
    told = deletion(cached(snapshot), shelf)
    assert told.nbytes == bytes_below(snapshot)
    assert delete(told, shelf) == told.nbytes
    assert not (tmp_path / "models--a--b").exists()


# ---- in use ----------------------------------------------------------------------------------


@needs_links
def test_a_model_in_use_is_not_touched(
    shelf: ModelShelf, small_gguf: Path, split_gguf: Path, tmp_path: Path
) -> None:
    model = copied(small_gguf, shelf)
    link = tmp_path / "link.gguf"
    link.symlink_to(model.path)
    for loaded in (model.path, model.path.parent, link):
        with pytest.raises(UserFixable, match="is in use"):
            delete(deletion(model, shelf), shelf, [tmp_path, loaded])
        with pytest.raises(UserFixable, match="is in use"):
            move(model, tmp_path / "there", shelf, nobody, never, [loaded])
    assert LocalModel.inspect(model.path)
    parts = sorted(split_gguf.parent.glob("*.gguf"))
    with pytest.raises(UserFixable, match="is in use"):
        protect(parts[0], [parts[2]])
    protect(parts[0], [small_gguf, tmp_path / "gone"])


# ---- moving ----------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["folder", "file", "split"])
@pytest.mark.parametrize("origin", [ModelOrigin.COPIED, ModelOrigin.IN_PLACE])
def test_a_model_moves_with_all_its_files(
    shelf: ModelShelf,
    chat_model: Path,
    small_gguf: Path,
    split_gguf: Path,
    tmp_path: Path,
    which: str,
    origin: ModelOrigin,
) -> None:
    source = {"folder": chat_model, "file": small_gguf, "split": split_gguf}[which]
    if origin is ModelOrigin.COPIED:
        model = copied(source, shelf)
    else:
        home = tmp_path / "home" / "model"
        shutil.copytree(source if which == "folder" else source.parent, home)
        model = import_in_place(home if which == "folder" else home / source.name, shelf)
    there = tmp_path / "an other disk"
    moved = move(model, there, shelf, nobody, never)
    assert moved.origin is origin
    assert there in moved.path.parents
    assert not moved.problem
    assert not model.path.exists()
    assert LocalModel.inspect(moved.path).weight_bytes == model.weight_bytes
    assert [each.path for each in shelf.memory.all()] == [str(moved.path)]
    if origin is ModelOrigin.COPIED:
        assert below(shelf.folder) == set()
        delete(deletion(moved, shelf), shelf)
        assert below(there) == set()


def test_a_move_that_is_cancelled_or_cannot_be_changes_nothing(
    shelf: ModelShelf, chat_model: Path, tmp_path: Path
) -> None:
    model = copied(chat_model, shelf)
    there = tmp_path / "there"
    with pytest.raises(Cancelled):
        move(model, there, shelf, nobody, lambda: True)
    assert below(there) == set()
    (there / model.path.name).mkdir()
    with pytest.raises(UserFixable, match="already a folder"):
        move(model, there, shelf, nobody, never)
    for origin in (
        ModelOrigin.BUNDLED,
        ModelOrigin.CACHE,
        ModelOrigin.DOWNLOADED,
        ModelOrigin.OLLAMA,
    ):
        with pytest.raises(NotPossible, match="cannot be moved"):
            move(KeptModel(default_target(), "x", origin, 1), there, shelf, nobody, never)
    assert LocalModel.inspect(model.path)
