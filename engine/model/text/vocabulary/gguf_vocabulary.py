"""The vocabulary in a GGUF file's metadata."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from engine.errors import UserFixable
from engine.language import tr
from engine.model.json_object import DOWNLOAD_AGAIN, JsonObject
from engine.model.text.token_bytes import BYTE_TOKEN
from engine.model.text.vocabulary.library import Vocabulary, byte_level, sentencepiece
from engine.model.text.vocabulary.pieces import (
    BLANK,
    PieceKind,
    Pieces,
    as_listed,
    by_score,
    damaged,
)
from engine.model.text.vocabulary.pretokenisers import pretokeniser

Metadata = Mapping[str, object]

_PREFIX = "tokenizer.ggml."
_CHARACTER_BPE = ("gemma4", "sarvam-moe")
"""Names of vocabularies of characters, as SentencePiece's, that list their merges."""
_MARK = re.compile(
    r"<\|[^<>|]+\|>|<｜[^<>｜]+｜>|</?s>|<unk>|<0x[0-9A-F]{2}>|<(?:start|end)_of_turn>"
)
_FIRST = ("unknown", "bos", "eos")
"""SentencePiece's first tokens, in their order."""
_KEEP_BLANKS = frozenset({"<unk>", "<s>", "<|endoftext|>"})
"""Phi-3's tokens that do not swallow the blanks behind them."""


def gguf_vocabulary(metadata: Metadata) -> Vocabulary:
    """Build the vocabulary in GGUF metadata.

    Raises:
        UserFixable: it is missing, damaged or of an unknown kind.
    """
    pieces = gguf_pieces(metadata)
    if _word(metadata, "model") == "llama":
        return _scored(metadata, pieces)
    merges = as_listed(_strings(metadata, "merges"), pieces.known)
    if _has_characters(metadata):
        return sentencepiece(pieces, merges, space_prefix=False, lines=True)
    return byte_level(pieces, merges, pretokeniser(_word(metadata, "pre") or "default"))


def gguf_pieces(metadata: Metadata) -> Pieces:
    """Read the tokens alone.

    Raises:
        UserFixable: the list is missing, damaged or of an unknown kind.
    """
    kind = _word(metadata, "model")
    if kind == "llama":
        return _pieces(metadata, _numbers(metadata, "scores"), blanks=True)
    if _has_characters(metadata):
        return _pieces(metadata, (), blanks=True)
    if kind == "gpt2":
        return _pieces(metadata, (), blanks=False)
    raise _unknown(kind)


def _has_characters(metadata: Metadata) -> bool:
    """Return whether tokens are made of characters, as SentencePiece's, and merges are listed."""
    kind, pre = _word(metadata, "model"), _word(metadata, "pre")
    return kind == "gemma4" or pre in _CHARACTER_BPE


def token_id(metadata: Metadata, name: str) -> int | None:
    """Return a token's id by its name: `bos`, `eos`, `eot`, `eom`, `unknown` or `padding`.

    Files with a SentencePiece vocabulary may leave out its usual first three.
    """
    key = f"{_PREFIX}{name}_token_id"
    value = metadata.get(key, usual_ids(metadata).get(key))
    tokens = metadata.get(f"{_PREFIX}tokens")
    count = len(tokens) if isinstance(tokens, Sequence) else 0
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < count:
        return value
    return None  # as llama.cpp: a bad id is as good as none


def usual_ids(metadata: Metadata) -> dict[str, int]:
    """Return the keys of ids that the file leaves out -> the ids that SentencePiece has there."""
    if _word(metadata, "model") != "llama":
        return {}
    usual = {f"{_PREFIX}{name}_token_id": index for index, name in enumerate(_FIRST)}
    return {key: index for key, index in usual.items() if metadata.get(key) is None}


def usual_words(metadata: Metadata) -> bool:
    """Tell whether the file leaves out how a byte-level vocabulary cuts text into words."""
    return _word(metadata, "model") == "gpt2" and _word(metadata, "pre") is None


def doubled_tokens(metadata: Metadata) -> int:
    """Return how many tokens have a text that a later one has, too."""
    texts = list(filter(None, _strings(metadata, "tokens")))
    return len(texts) - len(set(texts))


def adds_bos(metadata: Metadata) -> bool:
    """Return whether the begin-of-text token belongs before every text."""
    value = metadata.get(f"{_PREFIX}add_bos_token")
    if isinstance(value, bool):
        return value
    named = _word(metadata, "pre")
    beginning = ("llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "tekken")
    return _word(metadata, "model") in ("llama", "gemma4") or named in beginning


def _unknown(kind: str | None) -> UserFixable:
    if kind is None:
        return UserFixable(
            tr("The model file holds no vocabulary."), tr(DOWNLOAD_AGAIN), "tokenizer.ggml.model"
        )
    return UserFixable(
        tr("The model's vocabulary is of a kind that Duotail does not know."),
        tr("Choose another model, or a newer version of Duotail."),
        f"tokenizer.ggml.model: {kind!r}"[:500],
    )


def _scored(metadata: Metadata, pieces: Pieces) -> Vocabulary:
    if not pieces.scores:
        raise damaged("tokenizer.ggml.scores is missing")
    prefix = metadata.get(f"{_PREFIX}add_space_prefix")
    phi3 = JsonObject(metadata, "GGUF").text("general.architecture") == "phi3"
    return sentencepiece(
        pieces,
        by_score(pieces),
        space_prefix=prefix if isinstance(prefix, bool) else True,
        swallows=lambda index: phi3 and pieces.texts[index] not in _KEEP_BLANKS,
    )


def _pieces(metadata: Metadata, scores: Sequence[float], *, blanks: bool) -> Pieces:
    """The tokens; with `blanks`, those that the file writes with spaces get their stand-ins."""
    stored = _strings(metadata, "tokens")
    texts = [text or f"[EMPTY_{index}]" for index, text in enumerate(stored)]
    listed = _numbers(metadata, "token_type")
    kinds = [int(kind) for kind in listed if math.isfinite(kind)] or [PieceKind.NORMAL] * len(texts)
    for index, (text, kind) in enumerate(zip(texts, kinds, strict=False)):
        if kind == PieceKind.NORMAL and _MARK.fullmatch(text):
            kinds[index] = _kind_by_look(text)
        elif blanks and kind == PieceKind.USER_DEFINED:
            texts[index] = text.replace(" ", BLANK)
    return Pieces(texts, scores, kinds)


def _kind_by_look(text: str) -> PieceKind:
    """The kind of a token that looks like a mark, where the file calls it a word.

    Older files do, and some list no kinds at all.
    """
    if BYTE_TOKEN.fullmatch(text):
        return PieceKind.BYTE
    return PieceKind.UNKNOWN if text == "<unk>" else PieceKind.CONTROL


def _word(metadata: Metadata, name: str) -> str | None:
    return JsonObject(metadata, "GGUF").text(f"{_PREFIX}{name}")


def _strings(metadata: Metadata, name: str) -> Sequence[str]:
    values = metadata.get(f"{_PREFIX}{name}")
    if (
        not isinstance(values, Sequence)
        or isinstance(values, str)
        or not all(isinstance(value, str) for value in values)
    ):
        raise damaged(f"{_PREFIX}{name} is not a list of texts")
    return values


def _numbers(metadata: Metadata, name: str) -> Sequence[float]:
    """A list of numbers; empty when there is none."""
    values = metadata.get(f"{_PREFIX}{name}")
    if values is None:
        return ()
    if hasattr(values, "tolist"):  # long lists may come as arrays
        values = values.tolist()
    if not isinstance(values, Sequence) or not all(
        isinstance(value, int | float) for value in values
    ):
        raise damaged(f"{_PREFIX}{name} is not a list of numbers")
    return values
