"""Shortlists of published vocabularies: what everyday answers are made of is there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from folder_models import FOLDER_TARGET

from engine.model.families import open_config
from engine.model.text.shortlist import ROWS, frequent_words, shortened, shortlist
from engine.model.text.tokenizer import Tokenizer

FOLDERS = ("gpt2", "llama2", "phi-3-mini")
PLAIN = "The quick brown fox jumps over the lazy dog, and then it goes to sleep. How are you today?"
CODE = "def add(first, second):\n    return first + second\n\n\nprint(add(1, 2))\n"


@pytest.mark.parametrize("name", FOLDERS)
def test_everyday_tokens_are_there(published_folder: Path, name: str) -> None:
    tokenizer = Tokenizer.open(published_folder / name)
    ids = shortlist(tokenizer, 8192)
    assert len(ids) == 8192
    assert np.all(np.diff(ids) > 0)
    assert set(tokenizer.eos_ids) <= set(ids.tolist())
    for text in (PLAIN, CODE):
        written = tokenizer.encode_text(text)
        assert np.isin(written, ids).mean() > 0.95


def test_the_most_frequent_words_count_more_than_the_order_of_merges(
    published_folder: Path,
) -> None:
    tokenizer = Tokenizer.open(published_folder / "gpt2")
    written = tokenizer.encode_text(PLAIN + CODE)
    by_merges = np.arange(2048)
    assert np.isin(written, shortlist(tokenizer, 2048)).sum() > np.isin(written, by_merges).sum()


def test_tokens_that_are_left_out_make_room_for_others(published_folder: Path) -> None:
    tokenizer = Tokenizer.open(published_folder / "gpt2")
    before = shortlist(tokenizer, 100)
    without = before[:10].tolist()
    after = shortlist(tokenizer, 100, without)
    assert len(after) == 100
    assert not set(without) & set(after.tolist())


def test_a_shortlist_may_be_the_whole_vocabulary(published_folder: Path) -> None:
    tokenizer = Tokenizer.open(published_folder / "llama2")
    assert len(shortlist(tokenizer, 1 << 20)) == len(tokenizer.vocabulary)


def test_only_large_vocabularies_are_cut() -> None:
    config = open_config(FOLDER_TARGET)
    assert shortened(config) is config
    short = shortened(config, 64)
    assert (short.rows, short.tie_word_embeddings) == (64, False)
    assert shortened(short, 32) is short  # has its own


def test_the_list_of_words() -> None:
    words = frequent_words()
    assert len(words) == len(set(words)) > 20_000
    assert {" the", " return", "\n\n", "."} <= set(words[:300])
    assert len(words) * 2 > ROWS
