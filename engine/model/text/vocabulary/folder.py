"""A model folder's vocabulary, in whichever of the usual files it is."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from engine.errors import UserFixable
from engine.language import tr
from engine.model.json_object import DOWNLOAD_AGAIN, JsonObject
from engine.model.small_file import text_at_most
from engine.model.text.token_bytes import BYTE_OF
from engine.model.text.vocabulary.library import Vocabulary, byte_level, sentencepiece
from engine.model.text.vocabulary.pieces import (
    Merge,
    PieceKind,
    Pieces,
    SentencePieceModel,
    as_listed,
    by_rank,
    by_score,
    damaged,
)
from engine.model.text.vocabulary.pretokenisers import pretokeniser

MAX_BYTES = 64 << 20
MOST_TOKENS = 4_000_000
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

_Made = TypeVar("_Made")


def first_readable(folder: Path, make: Callable[[Vocabulary], _Made]) -> _Made:
    """Return what `make` makes of the first vocabulary file of a folder that is not damaged.

    The files are tokenizer.json, tokenizer.model, vocab.json with merges.txt, and *.tiktoken. All
    of a folder say the same, so when one is damaged the next one serves.

    Args:
        folder: a model's.
        make: raises `UserFixable` where it finds the vocabulary damaged.

    Raises:
        UserFixable: there is none, or all are damaged.
    """
    errors: list[UserFixable] = []
    for read in _readers(folder):
        try:
            return make(read())
        except UserFixable as error:
            errors.append(error)
    raise errors[0]


def _readers(folder: Path) -> list[Callable[[], Vocabulary]]:
    """Readers of the vocabulary files that the folder has, best first."""
    readers: list[Callable[[], Vocabulary]] = []
    if (folder / "tokenizer.json").exists():
        readers.append(partial(_library_file, folder / "tokenizer.json"))
    models = sorted(folder.glob("tokenizer.model*"))  # Mistral's end in a version
    if models:
        newest = models[0] if models[0].suffix == ".model" else models[-1]
        readers.append(partial(_sentencepiece, newest))
    if (folder / "vocab.json").exists() and (folder / "merges.txt").exists():
        readers.append(partial(_from_merges, folder))
    readers += [partial(_from_ranks, path) for path in sorted(folder.glob("*.tiktoken"))]
    if readers:
        return readers
    raise UserFixable(
        tr("The model folder has no tokenizer.json."),
        tr("Choose the folder that holds all of the model's files, or download it again."),
        str(folder),
    )


def _library_file(path: Path) -> Vocabulary:
    return Vocabulary(JsonObject.read(path).data)


def _sentencepiece(path: Path) -> Vocabulary:
    model = SentencePieceModel.read(path)
    pieces = _with_added(model.pieces, path.parent)
    return sentencepiece(pieces, by_score(pieces), space_prefix=model.space_prefix)


def _from_merges(folder: Path) -> Vocabulary:
    """Read the vocabulary of vocab.json and merges.txt."""
    file = JsonObject.read(folder / "vocab.json")
    ids = {text: file.integer(text, 0, MOST_TOKENS) for text in file.data}
    lines = _lines(folder / "merges.txt")
    merges = as_listed(lines[1:] if lines[:1] and lines[0].startswith("#") else lines, ids)
    settings = JsonObject.read_optional(folder / "tokenizer_config.json")
    name = (settings.text("tokenizer_class") or "").removesuffix("Fast")
    pieces = _with_added(_pieces_of(ids, merges), folder)
    return byte_level(pieces, merges, pretokeniser(_CLASSES.get(name, "gpt-2")))


def _from_ranks(path: Path) -> Vocabulary:
    """Read the vocabulary of a *.tiktoken file, which must be one of the published ones."""
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
    pieces = _with_added(_pieces_of(ids, merges), path.parent)
    return byte_level(pieces, merges, pretokeniser(words))


def _pieces_of(ids: Mapping[str, int], merges: list[Merge]) -> Pieces:
    """The tokens in the order of their ids; one that no merge yields is a control token."""
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
        return text_at_most(path, MAX_BYTES).split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserFixable(
            tr("{file} cannot be read.").format(file=path.name),
            tr(DOWNLOAD_AGAIN),
            str(error)[:500],
        ) from error


def _with_added(pieces: Pieces, folder: Path) -> Pieces:
    """Return the tokens with those of `added_tokens_decoder` and `added_tokens.json` among them.

    Where both name an id, the folder's files win over the vocabulary.
    """
    texts, kinds, scores = list(pieces.texts), list(pieces.kinds), list(pieces.scores)
    added = _added(folder)
    missing = range(len(texts), max(added, default=-1) + 1)
    texts += [f"[PAD{index}]" for index in missing]
    kinds += [PieceKind.UNUSED] * len(missing)
    if scores:
        scores += [0.0] * len(missing)
    for index, (text, kind) in added.items():
        texts[index], kinds[index] = text, kind
    return Pieces(texts, scores, kinds)


def _added(folder: Path) -> Mapping[int, tuple[str, PieceKind]]:
    """Id -> text and kind."""
    found: dict[int, tuple[str, PieceKind]] = {}
    file = JsonObject.read_optional(folder / "added_tokens.json")
    for text in file.data:
        found[file.integer(text, 0, MOST_TOKENS)] = (text, PieceKind.USER_DEFINED)
    settings = JsonObject.read_optional(folder / "tokenizer_config.json")
    listed = settings.member("added_tokens_decoder")
    for key in listed.data if listed else ():
        token = listed.member(key) if listed else None
        content = token.text("content") if token else None
        if token is None or not content or not key.isdecimal() or int(key) > MOST_TOKENS:
            raise settings.wrong("added_tokens_decoder", tr("an object of tokens by their ids"))
        special = token.flag("special", default=False)
        found[int(key)] = (content, PieceKind.CONTROL if special else PieceKind.USER_DEFINED)
    return found
