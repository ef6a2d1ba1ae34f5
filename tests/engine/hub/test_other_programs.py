"""What LM Studio, Ollama and the hub's cache hold on this disk."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from disk import (
    COMMIT,
    OTHER_COMMIT,
    into_cache,
    into_lm_studio,
    into_ollama,
    needs_links,
    no_permission_bites,
    patient,
)
from hypothesis import given
from hypothesis import strategies as st

from engine.hub.download.cache import repository_of, snapshot_of
from engine.hub.shelf.kept_model import ModelOrigin
from engine.hub.shelf.other_programs import FoundModel, ShelfSearch, cached_models, found_elsewhere
from engine.model.local_model import LocalModel
from engine.model.model_files import own_files


def found(home: Path, **environment: str) -> list[FoundModel]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "OLLAMA_MODELS"):
            patch.delenv(name, raising=False)
        for name in ("HOME", "USERPROFILE"):
            patch.setenv(name, str(home))
        for name, value in environment.items():
            patch.setenv(name, value)
        return found_elsewhere(search=patient())


def test_an_empty_home_holds_nothing(tmp_path: Path) -> None:
    assert found(tmp_path) == []
    assert found(tmp_path / "not there") == []


@pytest.mark.parametrize("place", [".lmstudio/models", ".cache/lm-studio/models"])
def test_lm_studio_in_both_of_its_places(
    tmp_path: Path, chat_model: Path, small_gguf: Path, place: str
) -> None:
    file = into_lm_studio(tmp_path / place, "someone/Babbler GGUF", small_gguf)
    folder = into_lm_studio(tmp_path / place, "other/Babbler", chat_model)
    models = {model.path: model for model in found(tmp_path)}
    assert set(models) == {file, folder}
    assert models[file].repo == "someone/Babbler GGUF"
    assert models[file].origin is ModelOrigin.LM_STUDIO
    assert all(LocalModel.inspect(path) for path in models)


def test_lm_studio_in_a_folder_that_was_chosen(tmp_path: Path, small_gguf: Path) -> None:
    home = tmp_path / "home"
    chosen = tmp_path / "große Platte" / "models"
    file = into_lm_studio(chosen, "a/b", small_gguf)
    settings = home / ".lmstudio" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"downloadsFolder": ' + f'"{chosen.as_posix()}"' + "}", encoding="utf-8")
    assert [model.path for model in found(home)] == [file]
    for damaged in ("{", '{"downloadsFolder": 3}', '{"downloadsFolder": "relative"}', '"\\u0000"'):
        settings.write_text(damaged)
        assert found(home) == []


def test_lm_studio_whose_home_was_moved(tmp_path: Path, small_gguf: Path) -> None:
    moved = tmp_path / "moved"
    file = into_lm_studio(moved / "models", "a/b", small_gguf)
    (tmp_path / ".lmstudio-home-pointer").write_text(f"{moved}\n")
    assert [model.path for model in found(tmp_path)] == [file]


@pytest.mark.parametrize(
    ("name", "tag", "told"),
    [
        ("registry.ollama.ai/library/babbler", "8b", "babbler:8b"),
        ("registry.ollama.ai/someone/babbler", "latest", "someone/babbler:latest"),
        ("hf.co/someone/Babbler-GGUF", "Q8_0", "hf.co/someone/Babbler-GGUF:Q8_0"),
    ],
)
def test_ollama_names_its_models(
    tmp_path: Path, small_gguf: Path, name: str, tag: str, told: str
) -> None:
    licence = "\n  Some Licence 2.0\nAnd more."
    blob = into_ollama(tmp_path / ".ollama" / "models", name, tag, small_gguf, licence)
    (model,) = found(tmp_path)
    assert (model.path, model.name, model.origin) == (blob, told, ModelOrigin.OLLAMA)
    assert model.licence == "Some Licence 2.0"
    assert LocalModel.inspect(model.path).kind == "Q8_0"


def test_ollama_where_its_variable_says(tmp_path: Path, small_gguf: Path) -> None:
    root = tmp_path / "big disk"
    blob = into_ollama(root, "registry.ollama.ai/library/babbler", "8b", small_gguf)
    assert [model.path for model in found(tmp_path / "home", OLLAMA_MODELS=str(root))] == [blob]


def test_one_file_of_two_tags_is_told_once(tmp_path: Path, small_gguf: Path) -> None:
    root = tmp_path / ".ollama" / "models"
    for tag in ("8b", "latest"):
        into_ollama(root, "registry.ollama.ai/library/babbler", tag, small_gguf)
    assert len(found(tmp_path)) == 1


def test_damaged_manifests_are_passed_over(tmp_path: Path, small_gguf: Path) -> None:
    root = tmp_path / ".ollama" / "models"
    name = "registry.ollama.ai/library/gone"
    into_ollama(root, name, "8b", small_gguf).unlink()
    manifests = root / "manifests" / name
    outside = '{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:../../x"}'
    layers = ('{"layers": 1}', '{"layers": [1, {"mediaType": 2}]}', f'{{"layers": [{outside}]}}')
    for number, text in enumerate(("", "{", "[]", *layers)):
        (manifests / str(number)).write_text(text)
    assert found(tmp_path) == []


@needs_links
def test_the_cache_of_the_hub(tmp_path: Path, chat_model: Path, small_gguf: Path) -> None:
    cache = tmp_path / ".cache" / "huggingface" / "hub"
    folder = into_cache(cache, "someone/Babbler", own_files(chat_model))
    files = into_cache(cache, "some-one/Babbler-GGUF", [small_gguf])
    into_cache(cache, "someone/only-a-tokenizer", [chat_model / "tokenizer.json"])
    (cache / "datasets--someone--words" / "snapshots" / COMMIT).mkdir(parents=True)
    models = {model.path: model for model in found(tmp_path)}
    assert set(models) == {folder, files / small_gguf.name}
    assert models[folder].repo == "someone/Babbler"
    assert models[folder].revision == COMMIT
    assert models[files / small_gguf.name].repo == "some-one/Babbler-GGUF"
    assert all(LocalModel.inspect(path) for path in models)


@needs_links
def test_of_two_revisions_the_current_one_is_told(tmp_path: Path, small_gguf: Path) -> None:
    into_cache(tmp_path, "a/b", [small_gguf], COMMIT, main=True)
    into_cache(tmp_path, "a/b", [small_gguf], OTHER_COMMIT, main=True)
    (model,) = cached_models(patient(), tmp_path)
    assert model.revision == OTHER_COMMIT


@needs_links
def test_models_that_do_not_write_are_left_out(tmp_path: Path, chat_model: Path) -> None:
    other = Path(shutil.copytree(chat_model, tmp_path / "bert"))
    (other / "config.json").write_text('{"architectures": ["BertModel"]}')
    into_cache(tmp_path / "cache", "a/bert", own_files(other))
    assert list(cached_models(patient(), tmp_path / "cache")) == []


def test_a_path_in_the_cache_knows_its_repository(tmp_path: Path) -> None:
    repository = tmp_path / "models--a--b"
    snapshot = repository / "snapshots" / COMMIT
    for path in (snapshot, snapshot / "x.gguf", snapshot / "sub" / "x.gguf"):
        assert repository_of(path) == repository
        assert snapshot_of(path) == snapshot
    for path in (tmp_path, repository, repository / "snapshots", tmp_path / "x" / COMMIT / "y"):
        assert repository_of(path) is None


@needs_links
def test_loops_of_links_end(tmp_path: Path, small_gguf: Path) -> None:
    root = tmp_path / ".lmstudio" / "models"
    file = into_lm_studio(root, "a/b", small_gguf)
    (root / "a" / "again").symlink_to(root, target_is_directory=True)
    (root / "self").symlink_to(root / "self")
    (root / "a" / "b" / "lost.gguf").symlink_to(tmp_path / "not there")
    real = tmp_path / "elsewhere"
    linked = into_lm_studio(real, "c", small_gguf)
    (root / "c").symlink_to(real / "c", target_is_directory=True)
    paths = {model.path for model in found(tmp_path)}
    assert file in paths
    assert root / "c" / linked.name in paths
    assert len(paths) <= 3


@pytest.mark.skipif(no_permission_bites(), reason="this user may read everything")
def test_folders_that_may_not_be_read_are_passed_over(tmp_path: Path, small_gguf: Path) -> None:
    root = tmp_path / ".lmstudio" / "models"
    file = into_lm_studio(root, "a/b", small_gguf)
    closed = into_lm_studio(root, "c/d", small_gguf).parent
    closed.chmod(0)
    try:
        assert [model.path for model in found(tmp_path)] == [file]
    finally:
        closed.chmod(0o700)


def test_a_search_ends_in_time_and_says_so(tmp_path: Path, small_gguf: Path) -> None:
    root = tmp_path / "models"
    into_lm_studio(root, "a/b", small_gguf)
    late = ShelfSearch(seconds=0)
    assert list(late.models_below(root, 3)) == []
    few = ShelfSearch(seconds=600, folders=2)
    assert list(few.models_below(root, 3)) == []
    whole = patient()
    assert len(list(whole.models_below(root, 3))) == 1
    assert list(patient().models_below(root, 1)) == [], "no deeper than asked"


@given(text=st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=60))
def test_whatever_settings_say_nothing_breaks(text: str) -> None:
    assert found(Path(os.devnull), OLLAMA_MODELS=text, HF_HUB_CACHE="~/x") == []
