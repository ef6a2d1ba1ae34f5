"""Which two neighbouring tokens become one, and which do so first."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from engine.model.text.vocabulary.pieces import PieceKind, Pieces, is_blank

Merge = tuple[str, str]


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
    """The merges of a list "first second", in its order, as far as the vocabulary has their result.

    Of a merge that is listed twice the first counts. The first half may begin with a space.
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
