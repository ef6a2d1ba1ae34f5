"""Whether a draft model speaks its target's tokens."""

from __future__ import annotations

import re

from engine.model.text.tokenizer import Tokenizer

_FILLER = re.compile(r"\[PAD\d+\]|<unused\d+>|<\|?(?:extra|reserved)[\w|]*>")
"""Names that converters invent for the rows of the embedding that stand for no token."""


def same_tokens(target: Tokenizer, draft: Tokenizer) -> bool:
    """Whether a token id means the same to both.

    Rows that stand for no token may have a name in one file and none, or another one, in the
    other: GGUF files name every row, tokenizer.json only tokens.
    """
    ours, theirs = target.vocabulary, draft.vocabulary
    if ours == theirs:
        return True
    odd = ours.items() ^ theirs.items()
    return all(_FILLER.fullmatch(token) for token, _ in odd)
