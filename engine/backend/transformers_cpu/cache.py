"""The transformers library's cache of one sequence, behind the interface of our caches."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Sequence

from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from engine.backend.ledger import Account, Purpose
from engine.backend.segment import SegmentCache, own_cache


class TransformersCache:
    """Keys and values, or whatever else the family carries from token to token.

    `tokens` are those that it has taken in. `kept` is None where nothing can be carried.

    Args:
        empty: makes an empty cache of the family; None where nothing can be carried.
        slots: most tokens.
        per_token: bytes that each takes.
        account: where that is entered.
    """

    def __init__(
        self,
        empty: Callable[[], DynamicCache] | None,
        slots: int,
        per_token: int,
        account: Account,
    ) -> None:
        self._empty = empty
        self._nbytes = slots * per_token
        here = weakref.ref(self)
        entry = account.take(Purpose.KV, self._nbytes, lambda: _taken_in(here()) * per_token)
        entry.lasts_as_long_as(self)
        self.tokens: list[int] = []
        self.kept = empty() if empty else None

    @property
    def nbytes(self) -> int:
        """Bytes that it takes at most."""
        return self._nbytes

    def reusable(self, slots: int) -> int:
        """Return how many of the first `slots` tokens it can go back to.

        Recurrent memory cannot go back: all of its tokens, or none.
        """
        return slots if slots == len(self.tokens) or self._can_go_back else 0

    def go_back(self, slots: int) -> list[int]:
        """Forget all tokens but the first `slots`; those to be taken in again for that."""
        before, self.tokens = self.tokens, self.tokens[:slots]
        if slots == len(before) or self.kept is None or self._empty is None:
            return []
        if self._can_go_back and slots:
            self.kept.crop(slots - len(before))
            return []
        self.kept = self._empty()
        again, self.tokens = self.tokens, []
        return again

    def copy_prefix(self, other: SegmentCache, slots: int) -> None:
        """Take over the first `slots` tokens of another cache."""
        source = own_cache(other, TransformersCache)
        if source.reusable(slots) != slots:
            raise ValueError("the cache cannot go back to that token")
        self.tokens, self.kept = list(source.tokens), copy.deepcopy(source.kept)
        self.go_back(slots)

    def move(self, sources: Sequence[int], target: int) -> None:
        """Do nothing: tokens come in chains and never move."""
        raise ValueError(f"{len(sources)} tokens cannot move to {target}: chains only")

    @property
    def _can_go_back(self) -> bool:
        """Tell whether every layer keeps each token's keys separately."""
        return self.kept is None or all(map(_can_go_back, self.kept.layers))


def _taken_in(cache: TransformersCache | None) -> int:
    """Tokens that it holds something for."""
    return 0 if cache is None or cache.kept is None else len(cache.tokens)


def _can_go_back(layer: object) -> bool:
    if isinstance(layer, DynamicSlidingWindowLayer):
        return layer.get_seq_length() < layer.sliding_window  # nothing has left it yet
    return type(layer) is DynamicLayer
