"""The tokens of a vocabulary as files list them, and the pairs of tokens that merge into one.

SentencePiece's tokenizer.model is a protobuf message, read field by field. Only what is needed is
read; every length is checked against the bytes that are there.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import pairwise
from pathlib import Path

from engine.errors import UserFixable
from engine.language import tr
from engine.model.json_object import DOWNLOAD_AGAIN
from engine.model.small_file import read_at_most


class PieceKind(IntEnum):
    """The purpose of a token, by the number that both kinds of files use."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


_MOST_CUTS = 1 << 27
"""Sum of the squares of lengths; of a quarter million words it is a tenth of this."""

Merge = tuple[str, str]
"""Two neighbouring tokens that become one."""
BLANK = "\u2581"
"""The character that SentencePiece writes for a space."""


def is_blank(text: str) -> bool:
    """Return whether a token is a run of blanks."""
    return not text.strip(BLANK)


@dataclass(frozen=True, slots=True)
class Pieces:
    """The tokens of a vocabulary, by their ids.

    Attributes:
        texts: text of each token.
        scores: of each token; higher ones are merged first. May be empty.
        kinds: `PieceKind` of each token.

    Raises:
        UserFixable: the lists have different lengths, or a score is no number.
    """

    texts: Sequence[str]
    scores: Sequence[float]
    kinds: Sequence[int]
    known: dict[str, int] = field(init=False)
    """Text -> token id; of a text that occurs twice, the later one."""

    def __post_init__(self) -> None:
        count = len(self.texts)
        object.__setattr__(self, "known", dict(zip(self.texts, range(count), strict=True)))
        if count == 0:
            raise damaged("no tokens")
        check_lengths(self.texts)
        if len(self.kinds) != count or (self.scores and len(self.scores) != count):
            raise damaged(f"{count} tokens, {len(self.kinds)} types, {len(self.scores)} scores")
        if any(map(math.isnan, self.scores)):
            raise damaged("a score is not a number")

    @property
    def doubled(self) -> dict[int, str]:
        """Return the tokens whose texts later ones have too, by their ids."""
        if len(self.known) == len(self.texts):
            return {}
        return {index: text for index, text in enumerate(self.texts) if self.known[text] != index}

    def ids(self, *kinds: PieceKind) -> list[int]:
        """The ids of the tokens of some kinds."""
        wanted = set(map(int, kinds))
        return [index for index, kind in enumerate(self.kinds) if kind in wanted]

    @property
    def has_bytes(self) -> bool:
        """Tell whether there is a token for every byte, so that nothing is unknown."""
        return self.kinds.count(PieceKind.BYTE) == 256


def damaged(details: str) -> UserFixable:
    """The error for a vocabulary that contradicts itself."""
    return UserFixable(
        tr("The model's list of tokens is damaged."), tr(DOWNLOAD_AGAIN), details[:500]
    )


def check_lengths(tokens: Iterable[str | bytes]) -> None:
    """Refuse tokens for which it would take very long to find the pairs that they are made of."""
    if sum(len(token) ** 2 for token in tokens) > _MOST_CUTS:
        raise damaged("tokens are too long")


def by_score(pieces: Pieces) -> list[Merge]:
    """The merges of a SentencePiece vocabulary: any two tokens that join to a token.

    The higher the score of the result, the earlier; of equal ones the first listed. Of ways to the
    same result, that with the longer first half comes first. Runs of blanks that are tokens of
    their own accord come before all others.
    """
    words = dict(_scored_words(pieces))
    return [
        (text[:cut], text[cut:])
        for text in sorted(words, key=words.__getitem__, reverse=True)
        for cut in range(len(text) - 1, 0, -1)
        if text[:cut] in words and text[cut:] in words
    ]


def _scored_words(pieces: Pieces) -> Iterator[tuple[str, float]]:
    for text, score, kind in zip(pieces.texts, pieces.scores, pieces.kinds, strict=True):
        if kind == PieceKind.USER_DEFINED and is_blank(text):
            yield text, math.inf
        elif kind in (PieceKind.NORMAL, PieceKind.UNUSED):
            yield text, score


def as_listed(lines: Sequence[str], known: Collection[str]) -> list[Merge]:
    """The merges of a list of lines "first second", whose results the vocabulary has, in order.

    A merge that is listed twice counts once. The first half may begin with a space.
    """
    if len(set(lines)) != len(lines):
        lines = list(dict.fromkeys(lines))
    return [
        (line[:cut], line[cut + 1 :])
        for line in lines
        if (cut := line.find(" ", 1)) > 0 and line[:cut] + line[cut + 1 :] in known
    ]


def by_rank(ranks: dict[bytes, int]) -> list[tuple[bytes, bytes]]:
    """The merges of a tiktoken vocabulary, where a token's rank is all that is stored.

    A token is made of the two that merging all lower ranks leaves of it.
    """
    check_lengths(ranks)
    return [
        halves
        for token in sorted(ranks, key=ranks.__getitem__)
        if len(token) > 1 and (halves := _made_of(token, ranks)) is not None
    ]


def _made_of(token: bytes, ranks: dict[bytes, int]) -> tuple[bytes, bytes] | None:
    parts, limit = [token[i : i + 1] for i in range(len(token))], ranks[token]
    while len(parts) > 2:
        joined = [ranks.get(a + b, limit) for a, b in pairwise(parts)]
        best = min(range(len(joined)), key=joined.__getitem__)
        if joined[best] >= limit:
            return None
        parts[best : best + 2] = [parts[best] + parts[best + 1]]
    return parts[0], parts[1]


MAX_BYTES = 64 << 20
_PIECES, _TRAINER, _NORMALIZER = 1, 2, 3
_TEXT, _SCORE, _KIND = 1, 2, 3
_MODEL_TYPE, _UNIGRAM, _BPE = 3, 1, 2
_CHARACTER_MAP, _DUMMY_PREFIX, _FEWER_BLANKS = 2, 3, 4

Field = int | float | bytes


class _Damaged(Exception):
    """The bytes are no such message."""


@dataclass(frozen=True, slots=True)
class SentencePieceModel:
    """The tokens of a tokenizer.model, and whether a space is put before a text."""

    pieces: Pieces
    space_prefix: bool

    @classmethod
    def read(cls, path: Path) -> SentencePieceModel:
        """Read a file.

        Raises:
            UserFixable: it is damaged, or of a kind that chat models do not use: one that chooses
                tokens by probability, or changes characters or blanks before.
        """
        try:
            model = cls._parse(read_at_most(path, MAX_BYTES))
        except (OSError, _Damaged, UnicodeDecodeError) as error:
            raise UserFixable(
                tr("{file} is damaged.").format(file=path.name),
                tr(DOWNLOAD_AGAIN),
                f"{path}: {error}"[:500],
            ) from error
        return model

    @classmethod
    def _parse(cls, data: bytes) -> SentencePieceModel:
        texts: list[str] = []
        scores: list[float] = []
        kinds: list[int] = []
        trainer: dict[int, Field] = {}
        normalizer: dict[int, Field] = {}
        for number, value in _fields(data):
            if number == _PIECES:
                piece = dict(_fields(_bytes(value)))
                texts.append(_bytes(piece.get(_TEXT, b"")).decode())
                scores.append(_number(piece.get(_SCORE, 0.0)))
                kinds.append(int(_number(piece.get(_KIND, PieceKind.NORMAL))))
            elif number == _TRAINER:
                trainer.update(_fields(_bytes(value)))
            elif number == _NORMALIZER:
                normalizer.update(_fields(_bytes(value)))
        if not texts:
            raise _Damaged("no tokens")
        changes = normalizer.get(_CHARACTER_MAP) or normalizer.get(_FEWER_BLANKS, 1)
        if changes or trainer.get(_MODEL_TYPE, _UNIGRAM) != _BPE:
            raise UserFixable(
                tr("The model's vocabulary is of a kind that Duotail does not know."),
                tr("Choose another model, or a copy of this one with a tokenizer.json."),
                f"model type {trainer.get(_MODEL_TYPE)!r}, normalizer {normalizer.get(1)!r}"[:500],
            )
        return cls(Pieces(texts, scores, kinds), bool(normalizer.get(_DUMMY_PREFIX, 1)))


def _fields(data: bytes) -> Iterator[tuple[int, Field]]:
    """The number and value of each field of a message."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if wire == 2:
            size, at = _varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise _Damaged(f"a field of type {wire} at {at}")
        end = at + size
        if end > len(data):
            raise _Damaged(f"{size} bytes at {at} of {len(data)}")
        stored = data[at:end]
        yield key >> 3, struct.unpack("<f", stored)[0] if wire == 5 else stored
        at = end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise _Damaged(f"a number without end at {at}")


def _bytes(value: Field) -> bytes:
    if not isinstance(value, bytes):
        raise _Damaged("a text was expected")
    return value


def _number(value: Field) -> float:
    if isinstance(value, bytes):
        raise _Damaged("a number was expected")
    return value
