"""Byte-level vocabularies as GPT-2 and tiktoken write them, in files for people to read."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from pathlib import Path

from engine.errors import UserFixable
from engine.language import tr
from engine.model.json_object import DOWNLOAD_AGAIN, JsonObject
from engine.model.text.token_bytes import BYTE_OF
from engine.model.text.vocabulary.added_tokens import MOST_TOKENS, with_added
from engine.model.text.vocabulary.description import Vocabulary, byte_level
from engine.model.text.vocabulary.merges import Merge, as_listed, by_rank
from engine.model.text.vocabulary.pieces import PieceKind, Pieces, damaged
from engine.model.text.vocabulary.pretokenisers import pretokeniser

MAX_BYTES = 64 << 20
_CHARACTER_OF = {byte: character for character, byte in BYTE_OF.items()}
_CLASSES = {"Qwen2Tokenizer": "qwen2", "CohereTokenizer": "command-r"}
"""Pre-tokenisers of tokenizer classes that do not cut as GPT-2's."""
_ENCODINGS = {
    "gpt2": ("gpt-2", {"<|endoftext|>": 50256}),
    "r50k_base": ("gpt-2", {"<|endoftext|>": 50256}),
    "p50k_base": ("gpt-2", {"<|endoftext|>": 50256}),
    "cl100k_base": (
        "dbrx",
        {
            "<|endoftext|>": 100257,
            "<|fim_prefix|>": 100258,
            "<|fim_middle|>": 100259,
            "<|fim_suffix|>": 100260,
            "<|endofprompt|>": 100276,
        },
    ),
    "o200k_base": ("gpt-4o", {"<|endoftext|>": 199999, "<|endofprompt|>": 200018}),
    "qwen": ("qwen2", {"<|endoftext|>": 151643, "<|im_start|>": 151644, "<|im_end|>": 151645}),
}
"""Published tiktoken files: how they cut words, and the control tokens that they do not list."""


def from_merges(folder: Path) -> Vocabulary:
    """The vocabulary of vocab.json and merges.txt.

    Raises `UserFixable` for damaged files.
    """
    file = JsonObject.read(folder / "vocab.json")
    ids = {text: file.integer(text, 0, MOST_TOKENS) for text in file.data}
    lines = _lines(folder / "merges.txt")
    merges = as_listed(lines[1:] if lines[:1] and lines[0].startswith("#") else lines, ids)
    settings = JsonObject.read_optional(folder / "tokenizer_config.json")
    name = (settings.text("tokenizer_class") or "").removesuffix("Fast")
    pieces = with_added(_pieces(ids, merges), folder)
    return byte_level(pieces, merges, pretokeniser(_CLASSES.get(name, "gpt-2")))


def from_ranks(path: Path) -> Vocabulary:
    """The vocabulary of a *.tiktoken file.

    Raises `UserFixable` for a damaged file, and for one that is none of the published ones.
    """
    if path.stem not in _ENCODINGS:
        raise UserFixable(
            tr("The model's vocabulary is of a kind that Duotail does not know."),
            tr("Choose another model, or a copy of this one with a tokenizer.json."),
            path.name,
        )
    words, controls = _ENCODINGS[path.stem]
    ranks = _ranks(path)
    ids = {_written(token): rank for token, rank in ranks.items()} | controls
    merges = [(_written(first), _written(second)) for first, second in by_rank(ranks)]
    pieces = with_added(_pieces(ids, merges), path.parent)
    return byte_level(pieces, merges, pretokeniser(words))


def _pieces(ids: Mapping[str, int], merges: list[Merge]) -> Pieces:
    """In the order of their ids; what no merge yields is a control token."""
    texts = [f"[PAD{index}]" for index in range(max(ids.values(), default=-1) + 1)]
    kinds: list[int] = [PieceKind.UNUSED] * len(texts)
    yielded = {first + second for first, second in merges}
    for text, index in ids.items():
        made = len(text) == 1 or text in yielded
        texts[index], kinds[index] = text, PieceKind.NORMAL if made else PieceKind.CONTROL
    return Pieces(texts, (), kinds)


def _ranks(path: Path) -> dict[bytes, int]:
    try:
        rows = [line.split() for line in _lines(path) if line]
        ranks = {base64.b64decode(token, validate=True): int(rank) for token, rank in rows}
    except (ValueError, binascii.Error) as error:
        raise damaged(f"{path.name}: {error}") from error
    if not all(ranks) or any(not 0 <= rank <= MOST_TOKENS for rank in ranks.values()):
        raise damaged(f"{path.name}: a rank out of range")
    return ranks


def _written(token: bytes) -> str:
    return "".join(map(_CHARACTER_OF.__getitem__, token))


def _lines(path: Path) -> list[str]:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise damaged(f"{path.name}: too large")
        return path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserFixable(
            tr("{file} cannot be read.").format(file=path.name),
            tr(DOWNLOAD_AGAIN),
            str(error)[:500],
        ) from error
