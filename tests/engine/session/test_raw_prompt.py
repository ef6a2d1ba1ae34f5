"""Prompts that go to the model as they stand: the beginning that it wants, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from engine.errors import UserFixable
from engine.model.text.tokenizer import Tokenizer
from engine.request import RawPrompt
from engine.session.raw_prompt import raw_prompt


def test_the_beginning_that_the_model_wants_is_put_once(
    published_folder: Path, tmp_path: Path
) -> None:
    shutil.copy(published_folder / "llama2" / "tokenizer.model", tmp_path)
    settings = {"bos_token": "<s>", "add_bos_token": True}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    tokenizer = Tokenizer.open(tmp_path)
    assert (tokenizer.adds_bos, tokenizer.bos_id) == (True, 1)
    (hello,) = tokenizer.encode_text("hello")
    for raw in (RawPrompt("hello"), RawPrompt(ids=(hello,)), RawPrompt(ids=(1, hello))):
        assert list(raw_prompt(raw, (), tokenizer).ids) == [1, hello]


def test_nothing_to_read_is_refused(chat_model: Path) -> None:
    tokenizer = Tokenizer.open(chat_model)
    assert not tokenizer.adds_bos
    with pytest.raises(UserFixable, match="The prompt is empty"):
        raw_prompt(RawPrompt(""), (), tokenizer)
