"""Finding and inspecting model folders."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
from pathlib import Path

import pytest
from folder_models import FOLDER_DRAFT, FOLDER_TARGET

from engine.errors import UserFixable
from engine.hub.local import bundled_models, default_target, resolve_model
from engine.model.local_model import LocalModel


def copy_of_model(folder: Path) -> Path:
    return Path(shutil.copytree(FOLDER_TARGET, folder / "my model"))


def test_the_small_pair_is_usable() -> None:
    target = LocalModel.inspect(default_target())
    assert target.name.startswith("Duotail ")
    assert target.config.family == "llama"
    assert target.draft is not None
    assert target.draft == FOLDER_DRAFT
    draft = LocalModel.inspect(target.draft)
    assert draft.draft is None
    assert draft.config.vocab_size == target.config.vocab_size
    assert 0 < draft.weight_bytes < target.weight_bytes < 20_000_000


def test_names_and_paths_resolve(
    tmp_path: Path, shipped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert resolve_model(None) == default_target() == shipped / FOLDER_TARGET.name
    assert tuple(bundled_models()) == (FOLDER_DRAFT.name, FOLDER_TARGET.name)
    for name in bundled_models():
        assert resolve_model(name) == shipped / name
    folder = copy_of_model(tmp_path)
    assert resolve_model(str(folder)) == folder.resolve()
    monkeypatch.chdir(tmp_path)
    assert resolve_model("my model") == folder.resolve()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert resolve_model("~/my model") == folder.resolve()


def test_a_bundled_model_is_a_folder_with_a_model_in_either_format(
    tmp_path: Path, chat_model: Path, small_gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").symlink_to(chat_model)
    for name in ("file", "two files", "no model"):
        (tmp_path / name).mkdir()
    shutil.copy(small_gguf, tmp_path / "file")
    for name in ("a.gguf", "b.gguf"):
        shutil.copy(small_gguf, tmp_path / "two files" / name)
    (tmp_path / "MODEL_CARD.md").write_text("About them.", encoding="utf-8")
    monkeypatch.setattr("engine.model.bundled.root", lambda: tmp_path)
    found = {"file": tmp_path / "file" / small_gguf.name, "folder": tmp_path / "folder"}
    assert bundled_models() == found
    for name, path in found.items():
        assert LocalModel.inspect(resolve_model(name)).path == path


@pytest.mark.parametrize("draft", ["small", "small/small.gguf"])
def test_a_draft_may_be_a_file_or_the_folder_that_holds_it(
    tmp_path: Path, small_gguf: Path, draft: str
) -> None:
    folder = copy_of_model(tmp_path)
    (folder / "small").mkdir()
    shutil.copy(small_gguf, folder / "small" / "small.gguf")
    (folder / "duotail.json").write_text(json.dumps({"draft": draft}))
    found = LocalModel.inspect(folder).draft
    assert found == (folder / draft).resolve()
    assert LocalModel.inspect(found).kind == "Q8_0"


@pytest.mark.usefixtures("shipped")
@pytest.mark.parametrize("name", ["", "no-such-model", "/no/such/folder", "a\0b", "x" * 5000])
def test_unknown_models_are_refused_with_what_there_is(name: str) -> None:
    with pytest.raises(UserFixable, match="no model") as caught:
        resolve_model(name)
    assert FOLDER_TARGET.name in caught.value.remedy


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("model.safetensors", b"", "not a model in GGUF"),
        ("notes.txt", b"Hello", "not a model in GGUF"),
        ("model.bin", b"PK", "hidden code"),
        ("empty.gguf", b"", "is empty"),
        ("wrong.gguf", b"PK" * 99, "not a GGUF file"),
        ("pointer.gguf", b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "Git LFS"),
        ("page.gguf", b"\n<!DOCTYPE html><html><head><title>Sign in", "web page"),
        ("zip.gguf", b"PK\x03\x04" * 99, "archive"),
        ("m.gguf.part1of2", b"GGUF" * 99, "piece of a file"),
        ("m.gguf-split-b", b"abc", "piece of a file"),
        (None, b"", "There is no"),
    ],
)
def test_files_that_hold_no_model(
    tmp_path: Path, name: str | None, content: bytes, words: str
) -> None:
    file = tmp_path / (name or "gone.gguf")
    if name is not None:
        file.write_bytes(content)
        assert resolve_model(str(file)) == file
    with pytest.raises(UserFixable, match=words) as refused:
        LocalModel.inspect(file)
    assert refused.value.remedy


def test_a_folder_with_an_adapter_is_named_for_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    (tmp_path / "adapter_model.safetensors").write_bytes(b"x")
    with pytest.raises(UserFixable, match="LoRA"):
        LocalModel.inspect(tmp_path)


def test_a_folder_without_sidecar_is_named_after_itself(tmp_path: Path) -> None:
    folder = copy_of_model(tmp_path)
    (folder / "duotail.json").unlink()
    model = LocalModel.inspect(folder)
    assert (model.name, model.draft) == ("my model", None)


@pytest.mark.parametrize("draft", ["../nowhere", "", "a\0b"])
def test_a_draft_that_is_not_there_is_no_draft(tmp_path: Path, draft: str) -> None:
    folder = copy_of_model(tmp_path)
    shutil.rmtree(folder / "x", ignore_errors=True)
    (folder / "duotail.json").write_text(json.dumps({"name": "Mine", "draft": draft}))
    model = LocalModel.inspect(folder)
    assert model.name == "Mine"
    assert model.draft in (None, folder.resolve() if draft == "" else None)


@pytest.mark.parametrize(
    ("file", "content", "word"),
    [
        ("config.json", None, "config"),
        ("config.json", b'{"model_type": "bert"}', "bert"),
        ("model.safetensors", None, "no weights"),
        ("model.safetensors", b"short", "incomplete"),
        ("duotail.json", b"{", "damaged"),
        ("duotail.json", b'{"name": 3}', "name"),
        ("duotail.json", b'{"draft": ["x"]}', "draft"),
    ],
)
def test_broken_folders(tmp_path: Path, file: str, content: bytes | None, word: str) -> None:
    folder = copy_of_model(tmp_path)
    (folder / file).unlink()
    if content is not None:
        (folder / file).write_bytes(content)
    with pytest.raises(UserFixable, match=word):
        LocalModel.inspect(folder)


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    folder = copy_of_model(tmp_path)
    shutil.copy(FOLDER_DRAFT / "config.json", folder)
    with pytest.raises(UserFixable, match="do not fit"):
        LocalModel.inspect(folder)


def refused(folder: Path, name: str, words: str) -> None:
    with pytest.raises(UserFixable, match=words) as caught:
        LocalModel.inspect(folder)
    assert name in caught.value.cause


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes in folders")
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_pipes_sockets_and_devices_are_refused_before_they_are_opened(
    tmp_path: Path, name: str
) -> None:
    folder = copy_of_model(tmp_path)
    file = folder / name
    file.unlink()
    os.mkfifo(file)
    refused(folder, name, "is not an ordinary file")
    file.unlink()
    with socket.socket(socket.AF_UNIX) as listening, contextlib.chdir(folder):
        listening.bind(name)  # the whole path may be too long for a socket
        refused(folder, name, "is not an ordinary file")
    file.unlink()
    file.symlink_to("/dev/zero")
    refused(folder, name, "is not an ordinary file")


def test_links_may_not_lead_out_of_the_folder_but_into_the_hubs_own_store(tmp_path: Path) -> None:
    repository = tmp_path / "models--someone--model"
    folder = repository / "snapshots" / "0123"
    shutil.copytree(FOLDER_TARGET, folder)
    file, blob = folder / "config.json", repository / "blobs" / "abc"
    blob.parent.mkdir()
    file.rename(blob)
    file.symlink_to(Path("../../blobs/abc"))
    assert LocalModel.inspect(folder).config.family == "llama"
    blob.rename(tmp_path / "elsewhere.json")
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere.json")
    refused(folder, "config.json", "out of the model's folder")
