"""Tokenizers from strangers: each gives tokens or words, in time, and ends no process."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import psutil
import pytest
from hostile_tokenizers import hostile_description, hostile_metadata, write_hostile_folder

from engine.errors import UserFixable
from engine.model.generation_config import folder_sampling, gguf_sampling
from engine.model.text.chat_template import ChatTemplate
from engine.model.text.tokenizer import Tokenizer
from engine.model.text.vocabulary import library
from engine.model.text.vocabulary.same_tokens import folder_tokens, gguf_tokens

_BATCH = 50
_MOST_BYTES = 512 << 20
_TEXTS = ("", "a", "Hello, World 123\n\t", "a" * 2000, "x" * 2000, "\u4f60\U0001f999\u0301\0")


def _used(tokenizer: Tokenizer) -> None:
    for text in _TEXTS:
        ids = tokenizer.encode_text(text)
        tokenizer.encode_rendered(f"<s>{text}</s>")
        tokenizer.decode(ids)


def _description(random: Random, folder: Path) -> None:
    (folder / "tokenizer.json").write_text(json.dumps(hostile_description(random)))
    _worded(lambda: folder_tokens(folder))
    _used(Tokenizer.open(folder))


def _folder(random: Random, folder: Path) -> None:
    write_hostile_folder(folder, random)
    folder_sampling(folder)
    _worded(lambda: folder_tokens(folder))
    _worded(lambda: ChatTemplate.open(folder))
    _used(Tokenizer.open(folder))


def _gguf(random: Random, _folder: Path) -> None:
    metadata = hostile_metadata(random)
    gguf_sampling(metadata)
    _worded(lambda: gguf_tokens(metadata))
    _worded(lambda: ChatTemplate.from_gguf(metadata))
    _used(Tokenizer.from_gguf(metadata))


def _worded(step: Callable[[], object]) -> bool:
    """Whether a step succeeds; it may fail in words only."""
    try:
        step()
    except UserFixable:
        return False
    return True


_KINDS = {"description": _description, "folder": _folder, "gguf": _gguf}


@pytest.mark.release(reason="1,000 tokenizers take a minute and more", keep=3)
@pytest.mark.parametrize("batch", range(7))
@pytest.mark.parametrize("kind", _KINDS)
def test_mutated_tokenizers(
    kind: str, batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "SECONDS", 0.5)
    before = psutil.Process().memory_info().rss
    accepted = set()
    for number in range(batch * _BATCH, (batch + 1) * _BATCH):
        folder = tmp_path / str(number)
        folder.mkdir()
        begun = time.process_time()
        accepted.add(_worded(lambda n=number, at=folder: _KINDS[kind](Random(n), at)))
        assert time.process_time() - begun < 5, f"seed {number}"
    assert accepted == {True, False}
    assert psutil.Process().memory_info().rss - before < _MOST_BYTES
