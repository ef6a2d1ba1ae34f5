"""Text of the drafted tokens on the verified path of a round: `RoundFinished.guesses`."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from engine.backend.round import Round
from engine.events import Guess
from engine.model.text.tokenizer import Tokenizer

ENOUGH = 4
"""Tokens that may have a part in one character: its bytes."""


def words(tokenizer: Tokenizer, before: Sequence[int], tokens: Sequence[int]) -> list[str]:
    """Return the text that each token writes; a character belongs to the token that completes it.

    Half a character at the end is in none of them.

    Args:
        tokenizer: of both models.
        before: the last tokens before them, `ENOUGH` if there are so many.
        tokens: the ids.
    """
    pieces = [tokenizer.token_bytes(token) for token in tokens]
    if all(map(bytes.isascii, pieces)):
        return [piece.decode("ascii") for piece in pieces]
    utf8 = codecs.getincrementaldecoder("utf-8")("replace")
    utf8.decode(b"".join(map(tokenizer.token_bytes, before)))
    return [utf8.decode(piece) for piece in pieces]


def drafted_tokens(
    tokenizer: Tokenizer, before: Sequence[int], done: Round, counted: int, refused: Sequence[str]
) -> tuple[Guess, ...]:
    """Return the drafted tokens that were accepted, and the first one that was not.

    Args:
        tokenizer: of both models.
        before: the answer's last tokens before the round, see `words`.
        done: the round.
        counted: how many of its tokens belong to the answer.
        refused: `words` of its rejected tokens.
    """
    accepted = min(done.accepted, counted)
    drafts = done.guesses
    told = done.verified.chances or (None,) * len(done.tokens)
    found = [
        Guess(text, draft, target, accepted=True)
        for text, draft, target in zip(
            words(tokenizer, before, done.tokens[:accepted]), drafts, told, strict=False
        )
    ]
    if refused and accepted == done.accepted:
        found.append(Guess(refused[0], drafts[-1], done.verified.refused, accepted=False))
    return tuple(found)
