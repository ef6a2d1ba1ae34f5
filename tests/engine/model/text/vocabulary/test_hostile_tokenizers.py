"""Tokenizers of strangers are tried where they can do no harm."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine.errors import UserFixable
from engine.model.text.vocabulary import library
from engine.model.text.vocabulary.library import Vocabulary, libraries

WORDS = {"a": 0, "b": 1, " ": 2}
GROWS = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 64}


def described(**members: Any) -> Vocabulary:
    description = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": None,
        "model": {"type": "BPE", "vocab": WORDS, "merges": []},
    }
    return Vocabulary({**description, **members})


def split_by(pattern: str) -> dict[str, object]:
    return {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }


@pytest.mark.parametrize(
    "members",
    [
        {"normalizer": {"type": "Sequence", "normalizers": [GROWS] * 5}},
        {"model": {"type": "WordLevel", "vocab": WORDS, "unk_token": "missing"}},
        {"model": {"type": "Unigram", "vocab": [["a", -1.0]], "unk_id": 7}},
        {"model": {"type": "WordPiece", "vocab": {}, "unk_token": "[UNK]"}},
        {"pre_tokenizer": split_by("(")},
    ],
    ids=["grows", "no unknown token", "unknown id", "empty", "damaged"],
)
def test_hostile_tokenizers_are_refused_in_words(
    members: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "_LIMITS", replace(library._LIMITS, seconds=1.0, nbytes=1 << 29))
    with pytest.raises(UserFixable, match="vocabulary is damaged"):
        libraries(described(**members))
    assert libraries(described()).start.encode("ab").ids == [0, 1]
