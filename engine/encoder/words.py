"""How an encoder cuts texts into tokens, with those that begin and end each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import tokenizers

from engine.errors import UserFixable
from engine.language import tr
from engine.model.gguf.file import Metadata
from engine.model.json_object import DOWNLOAD_AGAIN, JsonObject
from engine.model.text.vocabulary.library import Vocabulary, libraries

_WORD = "\N{LOWER ONE EIGHTH BLOCK}"
"""Stands before tokens that begin a word, in GGUF."""


def of_folder(folder: Path) -> tokenizers.Tokenizer:
    """Return the tokenizer of a folder.

    Raises:
        UserFixable: it is missing, damaged or of an unknown kind.
    """
    return libraries(Vocabulary(JsonObject.read(folder / "tokenizer.json").data)).start


def of_metadata(told: Metadata) -> tokenizers.Tokenizer:
    """Return the tokenizer in a GGUF file: BERT's pieces of words.

    Raises:
        UserFixable: it is damaged or of another kind.
    """
    if told.word("tokenizer.ggml.model") != "bert":
        raise UserFixable(
            tr("The model's vocabulary is of a kind that Duotail does not know."),
            tr("Choose the folder of the same model, with safetensors and tokenizer.json."),
            str(told.word("tokenizer.ggml.model")),
        )
    tokens = [_piece(each) for each in told.texts("tokenizer.ggml.tokens")]
    ends = [_marker(told, tokens, name) for name in ("cls", "seperator", "unknown")]  # as spelled
    first, last, unknown = ends
    vocabulary: dict[str, int] = {}
    for number, token in enumerate(tokens):
        vocabulary.setdefault(token, number)
    cased = any(token.isalpha() and token != token.lower() for token in tokens)
    description = {
        "version": "1.0",
        "added_tokens": [_added(vocabulary[each], each) for each in dict.fromkeys(ends)],
        "normalizer": {
            "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
            "strip_accents": None, "lowercase": not cased,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "BertProcessing",
            "sep": [last, vocabulary[last]],
            "cls": [first, vocabulary[first]],
        },
        "decoder": None,
        "model": {
            "type": "WordPiece", "unk_token": unknown, "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocabulary,
        },
    }  # fmt: skip
    return libraries(Vocabulary(description)).start


def _piece(token: str) -> str:
    """Return a token as BERT's own vocabularies write it."""
    if token.startswith(_WORD):
        return token.removeprefix(_WORD)
    return token if token.startswith("[") and token.endswith("]") else f"##{token}"


def _added(number: int, content: str) -> dict[str, object]:
    off = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": content, "special": True, **off}


_MARKERS = {"cls": ("bos", "[CLS]"), "seperator": ("eos", "[SEP]"), "unknown": ("", "[UNK]")}


def _marker(told: Metadata, tokens: Sequence[str], name: str) -> str:
    other, usual = _MARKERS[name]
    most = len(tokens) - 1
    for key in filter(None, (name, other)):
        number = told.integer(f"tokenizer.ggml.{key}_token_id", -1, max(most, 0), default=-1)
        if number >= 0:
            return tokens[number]
    if usual in tokens:
        return usual
    raise UserFixable(tr("The model's vocabulary is damaged."), tr(DOWNLOAD_AGAIN), usual)
