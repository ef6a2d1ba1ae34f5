"""Bringing models in: in place, and by copies that are whole or not there."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from disk import below, into_cache, into_ollama, needs_links, no_permission_bites
from folder_models import FOLDER_TARGET

from engine.errors import Cancelled, UserFixable
from engine.hub.shelf import relocation
from engine.hub.shelf.kept_model import ModelOrigin
from engine.hub.shelf.relocation import (
    clear_unfinished,
    copy_all,
    import_copy,
    import_in_place,
    meant,
)
from engine.hub.shelf.shelf import ModelShelf
from engine.model.local_model import LocalModel
from engine.model.model_files import SeveralModels, own_files


def nobody(_share: float) -> None:
    """Hears nothing."""


def never() -> bool:
    return False


def copied(path: Path, shelf: ModelShelf, name: str = "") -> Path:
    return import_copy(path, shelf, nobody, never, name).path


def test_in_place_it_stays_and_is_remembered(
    shelf: ModelShelf, chat_model: Path, shipped: Path
) -> None:
    model = import_in_place(chat_model / "model.safetensors", shelf)
    assert (model.path, model.origin) == (chat_model, ModelOrigin.IN_PLACE)
    assert [each.path for each in shelf.memory.all()] == [str(chat_model)]
    assert not shelf.folder.exists()
    assert import_in_place(shipped / FOLDER_TARGET.name, shelf).origin is ModelOrigin.BUNDLED
    assert len(shelf.memory.all()) == 1


def test_what_is_no_model_is_refused_in_words(
    shelf: ModelShelf, tmp_path: Path, small_gguf: Path
) -> None:
    (tmp_path / "x.bin").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(small_gguf.read_bytes()[:5000])
    for path in (tmp_path / "x.bin", tmp_path / "empty", tmp_path / "gone", cut):
        with pytest.raises(UserFixable):
            import_in_place(path, shelf)
        with pytest.raises(UserFixable):
            copied(path, shelf)
    several = tmp_path / "several"
    several.mkdir()
    for name in ("a.gguf", "b.gguf"):
        shutil.copy(small_gguf, several / name)
    with pytest.raises(SeveralModels):
        meant(several)
    assert shelf.memory.all() == ()
    assert not shelf.folder.exists()


def test_a_copied_folder_has_all_it_needs_and_nothing_else(
    shelf: ModelShelf, chat_model: Path, tmp_path: Path
) -> None:
    source = Path(shutil.copytree(chat_model, tmp_path / "Mein Modell 模型"))
    (source / "pytorch_model.bin").write_bytes(b"code")
    (source / "photos").mkdir()
    (source / "photos" / "me.jpg").write_bytes(b"")
    (source / "LICENSE").write_text("free")
    path = copied(source, shelf)
    assert path == shelf.folder / source.name
    assert below(path) == {each.name for each in own_files(chat_model)} | {"LICENSE"}
    told = shelf.describe(path)
    assert told.origin is ModelOrigin.COPIED
    assert not told.problem
    (known,) = shelf.memory.all()
    content = (path / "model.safetensors").read_bytes()
    assert known.hashes["model.safetensors"] == hashlib.sha256(content).hexdigest()


def test_a_second_copy_has_a_name_of_its_own(shelf: ModelShelf, small_gguf: Path) -> None:
    first, second = copied(small_gguf, shelf), copied(small_gguf, shelf)
    assert first == shelf.folder / "babbler-Q8_0" / "babbler-Q8_0.gguf"
    assert second == shelf.folder / "babbler-Q8_0 2" / "babbler-Q8_0.gguf"


def test_all_parts_of_a_split_model_are_copied(shelf: ModelShelf, split_gguf: Path) -> None:
    path = copied(sorted(split_gguf.parent.glob("*.gguf"))[1], shelf)
    assert len(list(path.parent.iterdir())) == 3
    assert LocalModel.inspect(path)


@needs_links
def test_links_are_followed(shelf: ModelShelf, chat_model: Path, tmp_path: Path) -> None:
    snapshot = into_cache(tmp_path / "cache", "a/b", own_files(chat_model))
    path = copied(snapshot, shelf, name="Babbler")
    assert path == shelf.folder / "Babbler"
    assert not any(each.is_symlink() for each in path.iterdir())
    assert LocalModel.inspect(path)


def test_a_blob_of_ollama_gets_a_name(shelf: ModelShelf, small_gguf: Path, tmp_path: Path) -> None:
    blob = into_ollama(tmp_path, "registry.ollama.ai/library/babbler", "8b", small_gguf)
    path = copied(blob, shelf, name="babbler:8b")
    assert path == shelf.folder / "babbler-8b" / "babbler-8b.gguf"
    assert path.read_bytes() == small_gguf.read_bytes()


@pytest.mark.parametrize("name", ["../../out", "con", "a/b", "...", "x" * 300, "NUL.txt", "\0"])
def test_no_name_leads_out_of_the_folder(shelf: ModelShelf, small_gguf: Path, name: str) -> None:
    path = copied(small_gguf, shelf, name)
    assert path.parent.parent == shelf.folder
    assert len(path.parent.name) <= 90


def test_progress_goes_to_the_end_once(shelf: ModelShelf, chat_model: Path) -> None:
    told: list[float] = []
    import_copy(chat_model, shelf, told.append, never)
    assert told == sorted(told)
    assert told[0] < 0.5 < told[-1] == 1.0


@pytest.mark.parametrize("share", [0.0, 0.6])
def test_a_cancelled_copy_leaves_nothing(shelf: ModelShelf, chat_model: Path, share: float) -> None:
    """While it is copied, and while the copies are read again."""
    told: list[float] = []
    with pytest.raises(Cancelled):
        import_copy(chat_model, shelf, told.append, lambda: any(each > share for each in told))
    assert below(shelf.folder) == set()
    assert shelf.memory.all() == ()


def test_a_full_disk_is_told_before_anything_is_written(
    shelf: ModelShelf, chat_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(chat_model)
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: usage._replace(free=1000))
    with pytest.raises(UserFixable, match=r"not enough space.*needs .* more"):
        copied(chat_model, shelf)
    assert below(shelf.folder) == set()


def test_a_disk_that_fails_leaves_nothing(
    shelf: ModelShelf, chat_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserFixable, match="could not be copied"):
        copied(chat_model, shelf)
    assert below(shelf.folder) == set()


def test_a_disk_that_lies_is_noticed(
    shelf: ModelShelf, chat_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest: Callable[..., str] = relocation.sha256_of
    monkeypatch.setattr(relocation, "sha256_of", lambda *args: honest(*args)[::-1])
    with pytest.raises(UserFixable, match="copied wrongly"):
        copied(chat_model, shelf)
    assert below(shelf.folder) == set()


@pytest.mark.skipif(no_permission_bites(), reason="this user may write everywhere")
def test_a_folder_that_may_not_be_written_is_told(shelf: ModelShelf, chat_model: Path) -> None:
    shelf.folder.mkdir(parents=True)
    shelf.folder.chmod(0o500)
    try:
        with pytest.raises(UserFixable, match="Nothing can be written"):
            copied(chat_model, shelf)
    finally:
        shelf.folder.chmod(0o700)


_COPIES_AND_WAITS = """
import sys, time
from pathlib import Path
from engine.hub.shelf.relocation import copy_all

def tell(progress):
    print("half", flush=True)
    time.sleep(600)

source, folder = map(Path, sys.argv[1:])
copy_all({"big": source}, folder, tell, lambda: False)
"""


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_what_a_killed_program_leaves_goes_with_the_next_copy(
    shelf: ModelShelf, small_gguf: Path
) -> None:
    folder = shelf.folder / "Babbler"
    command = [sys.executable, "-c", _COPIES_AND_WAITS, str(small_gguf), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "half\n"
        left = below(shelf.folder)
        assert any(name.startswith(".copying-") for name in left)
        clear_unfinished(shelf.folder)
        assert below(shelf.folder) == left, "a program that still copies is left alone"
        process.send_signal(signal.SIGKILL)
    assert not folder.exists()
    assert shelf.models(elsewhere=False)
    assert not any(".copying-" in str(model.path) for model in shelf.models(elsewhere=False))
    path = copied(small_gguf, shelf)
    assert below(shelf.folder) == {"babbler-Q8_0", f"babbler-Q8_0/{path.name}"}


def test_a_copy_that_the_list_never_heard_of_is_found(shelf: ModelShelf, small_gguf: Path) -> None:
    path = copied(small_gguf, shelf)
    shelf.memory.forget(path)
    told = {model.path: model for model in shelf.models(elsewhere=False)}
    assert told[path].origin is ModelOrigin.COPIED


def test_a_new_folder_is_there_only_when_all_is(tmp_path: Path, small_gguf: Path) -> None:
    folder = tmp_path / "new"
    hashes = copy_all({"a": small_gguf, "b": small_gguf}, folder, nobody, never)
    assert below(folder) == {"a", "b"}
    assert set(hashes) == {"a", "b"}
    missing = tmp_path / "missing"
    with pytest.raises(OSError, match="missing"):
        copy_all({"a": missing}, tmp_path / "other", nobody, never)
    assert below(tmp_path) == {"new", "new/a", "new/b"}
