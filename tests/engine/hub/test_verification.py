"""Reading all of a model: compared with what was published, where anybody knows."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from disk import into_cache, into_ollama, needs_links

from engine.errors import Cancelled
from engine.hub.shelf.relocation import import_copy
from engine.hub.shelf.shelf import ModelShelf
from engine.hub.shelf.verification import VerifiedModel, verify
from engine.model.model_files import own_files


def nobody(_share: float) -> None:
    """Hears nothing."""


def never() -> bool:
    return False


def verified(path: Path, shelf: ModelShelf) -> VerifiedModel:
    return verify(path, shelf, nobody, never)


def change_a_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-5] ^= 1
    file.write_bytes(content)


def test_without_hashes_it_is_read_to_its_end(shelf: ModelShelf, chat_model: Path) -> None:
    found = verified(chat_model, shelf)
    assert set(found.read) == {file.name for file in own_files(chat_model)}
    assert not found.compared
    assert not found.problem
    assert "nothing to compare" in found.words


def test_a_copy_is_compared_with_what_was_copied(shelf: ModelShelf, chat_model: Path) -> None:
    path = import_copy(chat_model, shelf, nobody, never).path
    found = verified(path, shelf)
    assert "model.safetensors" in found.compared
    assert not found.read
    assert "as it was copied" in found.words
    change_a_byte(path / "model.safetensors")
    found = verified(path, shelf)
    assert found.wrong == ("model.safetensors",)
    assert "Copy the model again" in found.words


@needs_links
def test_the_hubs_cache_names_files_by_their_hashes(
    shelf: ModelShelf, chat_model: Path, tmp_path: Path
) -> None:
    snapshot = into_cache(tmp_path, "a/b", own_files(chat_model))
    found = verified(snapshot, shelf)
    assert set(found.compared) == {file.name for file in own_files(chat_model)}
    for name in ("model.safetensors", "tokenizer.json"):
        blob = (snapshot / name).resolve()
        change_a_byte(blob)
        assert name in verified(snapshot, shelf).wrong


def test_ollama_does_too(shelf: ModelShelf, small_gguf: Path, tmp_path: Path) -> None:
    blob = into_ollama(tmp_path, "registry.ollama.ai/library/x", "1", small_gguf)
    assert verified(blob, shelf).compared == (blob.name,)
    change_a_byte(blob)
    assert verified(blob, shelf).problem


def test_what_is_cut_off_or_gone_is_told(
    shelf: ModelShelf, small_gguf: Path, chat_model: Path, tmp_path: Path
) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(small_gguf.read_bytes()[:-100])
    assert verified(cut, shelf).problem
    assert verified(tmp_path / "gone.gguf", shelf).problem
    folder = Path(shutil.copytree(chat_model, tmp_path / "folder"))
    (folder / "model.safetensors").unlink()
    assert verified(folder, shelf).problem


def test_a_disk_that_fails_and_files_that_nobody_knows_are_told(
    shelf: ModelShelf, chat_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = import_copy(chat_model, shelf, nobody, never).path
    known = shelf.memory.all()[0]
    some = {name: hash_ for name, hash_ in known.hashes.items() if name != "config.json"}
    shelf.memory.remember(replace(known, hashes=some))
    found = verified(copy, shelf)
    assert (found.read, found.problem) == (("config.json",), "")
    assert "of some there is nothing to compare them with" in found.words

    def fails(*_: object) -> str:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("engine.hub.shelf.verification.sha256_of", fails)
    assert "cannot be read to its end: Input/output error." in verified(copy, shelf).words


def test_it_tells_how_far_it_is_and_can_be_stopped(shelf: ModelShelf, split_gguf: Path) -> None:
    told: list[float] = []
    verify(split_gguf, shelf, told.append, never)
    assert told == sorted(told)
    assert told[0] < told[-1] == 1.0
    with pytest.raises(Cancelled):
        verify(split_gguf, shelf, nobody, lambda: True)
