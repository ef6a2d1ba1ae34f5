"""Whether a draft model speaks its target's tokens, and where it does not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b

from engine.model.text.tokenizer import Tokenizer

_FILLER = re.compile(r"\[PAD\d+\]|<unused\d+>|<\|?(?:extra|reserved)[\w|]*>")
"""Names that converters invent for the rows of the embedding that stand for no token."""


def same_tokens(target: Tokenizer, draft: Tokenizer) -> bool:
    """Whether a token id means the same to both; see `differing`."""
    return not differing(target.vocabulary, draft.vocabulary)


def fingerprint(vocabulary: Mapping[str, int]) -> str:
    """A short text that two vocabularies share if `differing` finds nothing, and else hardly ever.

    It stands for its target's tokens in the folder of a draft that has none of its own.
    """
    kept = sorted((n, token) for token, n in vocabulary.items() if not _FILLER.fullmatch(token))
    joined = "\0".join(f"{number} {token}" for number, token in kept)
    return blake2b(joined.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def differing(ours: Mapping[str, int], theirs: Mapping[str, int]) -> frozenset[str]:
    """The tokens that only one of two vocabularies has, or that have another id in each.

    Rows that stand for no token may have a name in one file and none, or another one, in the
    other: GGUF files name every row, tokenizer.json only tokens. They do not count.
    """
    if ours == theirs:
        return frozenset()
    odd = {token for token, _ in ours.items() ^ theirs.items()}
    return frozenset(token for token in odd if not _FILLER.fullmatch(token))
