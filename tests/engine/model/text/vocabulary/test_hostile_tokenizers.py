"""Tokenizers of strangers are tried where they can do no harm."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import UserFixable
from engine.model.text.tokenizer import Tokenizer
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
    with monkeypatch.context() as hasty:
        hasty.setattr(library, "SECONDS", 1.0)
        with pytest.raises(UserFixable, match="vocabulary is damaged"):
            libraries(described(**members))
    assert libraries(described()).start.encode("ab").ids == [0, 1]


def test_an_expression_that_never_ends_on_some_text_is_told_in_words() -> None:
    """None of the samples shows it; the library panics when it has tried too long."""
    tokenizer = Tokenizer(described(pre_tokenizer=split_by("(z+z+)+y")))
    assert tokenizer.encode_text("ab") == [0, 1]
    with pytest.raises(UserFixable, match="vocabulary is damaged"):
        tokenizer.encode_text("z" * 4000)


@pytest.mark.parametrize(
    ("tokens", "kind"),
    [(["a" * 40_000], 1), ([f"<{index}>" for index in range(100_000)], 3)],
    ids=["long", "control tokens only"],
)
def test_tokens_that_would_take_very_long_to_prepare_are_refused(
    tokens: list[str], kind: int
) -> None:
    metadata = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [0.0] * len(tokens),
        "tokenizer.ggml.token_type": [kind] * len(tokens),
    }
    with pytest.raises(UserFixable, match="list of tokens is damaged"):
        Tokenizer.from_gguf(metadata)
