"""SentencePiece's tokenizer.model: a protobuf message, read field by field.

Only what is needed is read; every length is checked against the bytes that are there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.errors import UserFixable
from engine.language import tr
from engine.model.json_object import DOWNLOAD_AGAIN
from engine.model.text.vocabulary.pieces import PieceKind, Pieces

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
            if path.stat().st_size > MAX_BYTES:
                raise _Damaged("too large")
            model = cls._parse(path.read_bytes())
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
