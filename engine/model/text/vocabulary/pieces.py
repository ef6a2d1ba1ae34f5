"""The tokens of a vocabulary, as GGUF and SentencePiece files list them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from engine.errors import UserFixable
from engine.language import tr
from engine.model.json_object import DOWNLOAD_AGAIN


class PieceKind(IntEnum):
    """What a token is for; both kinds of files use these numbers."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


BLANK = "\u2581"
"""What SentencePiece writes for a space."""


def is_blank(text: str) -> bool:
    """Whether a token is a run of blanks."""
    return not text.strip(BLANK)


@dataclass(frozen=True, slots=True)
class Pieces:
    """Token id -> text, score (higher is merged first) and kind; `scores` may be empty.

    Raises `UserFixable` for lists of different lengths, a text that occurs twice and scores that
    are no numbers.
    """

    texts: Sequence[str]
    scores: Sequence[float]
    kinds: Sequence[int]
    known: dict[str, int] = field(init=False)
    """Text -> token id."""

    def __post_init__(self) -> None:
        count = len(self.texts)
        object.__setattr__(self, "known", dict(zip(self.texts, range(count), strict=True)))
        if count == 0:
            raise damaged("no tokens")
        if len(self.kinds) != count or (self.scores and len(self.scores) != count):
            raise damaged(f"{count} tokens, {len(self.kinds)} types, {len(self.scores)} scores")
        if len(self.known) != count:
            raise damaged("a token is listed twice")
        if any(map(math.isnan, self.scores)):
            raise damaged("a score is not a number")

    def ids(self, *kinds: PieceKind) -> list[int]:
        """The ids of the tokens of some kinds."""
        wanted = set(map(int, kinds))
        return [index for index, kind in enumerate(self.kinds) if kind in wanted]

    @property
    def has_bytes(self) -> bool:
        """Whether there is a token for every byte, so that nothing is unknown."""
        return self.kinds.count(PieceKind.BYTE) == 256


def damaged(details: str) -> UserFixable:
    """The error for a vocabulary that contradicts itself."""
    return UserFixable(
        tr("The model's list of tokens is damaged."), tr(DOWNLOAD_AGAIN), details[:500]
    )
