"""The shortlist of a draft: the tokens that it has output rows for.

A small draft's output matrix is a large part of it, and most of its rows are hardly ever needed.
With those of frequent tokens alone (FR-Spec, arXiv 2502.14856) a draft costs a fraction. What has
no row is never drafted; the target decides alone, so no text changes.

No list is kept per vocabulary: `resources/words.json.xz` has the words of English prose, chats and
code by frequency, and a tokenizer turns them into its own tokens. Merges, and so the tokens that
they make, are numbered by frequency as well, in texts of many languages: they fill the rest.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Collection
from dataclasses import replace
from functools import cache
from importlib.resources import files
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from engine.model.config import ModelConfig
from engine.model.text.tokenizer import Tokenizer
from engine.model.text.vocabulary.same_tokens import is_filler

ROWS = 49_152
"""Rows of a shortlist. With a third of them a draft of half a billion weights costs 8 % less, and
5 % less of what it drafts is accepted."""
OWN_ROWS = 32_768
"""Rows of the shortlist of a head that a model brings along: without it, nearly all of its cost."""
_WORTH_IT = 1.25
"""A vocabulary has at least so many times the tokens of its shortlist, or keeps them all."""
_MOST_CONTROL = 256
_FLAT = 30
"""A word's frequency is about 1 / (its place in the list + this), by Zipf's law."""


def shortened(config: ModelConfig, rows: int = ROWS, *, always: bool = False) -> ModelConfig:
    """Return a draft's config with the output rows of a shortlist, if that saves much.

    Args:
        config: of a draft; one with few rows of its own stays as it is.
        rows: of the shortlist.
        always: even where it saves little.
    """
    small = config.vocab_size < rows * _WORTH_IT
    if config.rows is not None or (small and not always):
        return config
    return replace(config, rows=rows, tie_word_embeddings=False)


def shortlist(
    tokenizer: Tokenizer, rows: int = ROWS, without: Collection[int] = ()
) -> NDArray[np.int64]:
    """Return the tokens that answers have most often, int64 [at most rows], ascending.

    Control tokens are among them: answers end with one.

    Args:
        tokenizer: of the target.
        rows: how many there may be.
        without: tokens that are left out.
    """
    if tokenizer not in _ORDERS:
        _ORDERS[tokenizer] = _by_frequency(tokenizer)
    left_out = frozenset(without)
    kept = [number for number in _ORDERS[tokenizer] if number not in left_out][:rows]
    return np.array(sorted(kept), dtype=np.int64)


def shortlist_length(tokenizer: Tokenizer, rows: int = ROWS, without: Collection[int] = ()) -> int:
    """Return how many tokens `shortlist` gives, without looking for them."""
    return min(len(set(tokenizer.vocabulary.values()).difference(without)), rows)


_ORDERS: WeakKeyDictionary[Tokenizer, tuple[int, ...]] = WeakKeyDictionary()


def _by_frequency(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Return all tokens, those that control a conversation first."""
    numbers = np.array(sorted(tokenizer.vocabulary.values()), dtype=np.int64)
    counts = np.zeros(int(numbers[-1]) + 1)
    for place, ids in enumerate(tokenizer.encode_each(frequent_words())):
        counts[ids] += 1 / (place + _FLAT)
    by_count = numbers[np.argsort(-counts[numbers], kind="stable")].tolist()
    control = [*sorted(tokenizer.eos_ids)] + [
        number for token, number in tokenizer.control_tokens.items() if not is_filler(token)
    ]
    return tuple(dict.fromkeys((*control[:_MOST_CONTROL], *by_count)))


@cache
def frequent_words() -> tuple[str, ...]:
    """Return words with the blanks and marks before them, the most frequent first."""
    packed = (files("resources") / "words.json.xz").read_bytes()
    return tuple(json.loads(lzma.decompress(packed)))
