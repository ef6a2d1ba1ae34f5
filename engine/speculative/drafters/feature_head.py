"""A feature head: a few blocks that draft from what the target itself has computed (DGF, EAGLE).

Pair t of a head is the target's feature of token t beside token t + 1, from which it tells token
t + 2. So its tokens are the sequence's without the first. Below the root of a tree its own outputs
stand in for the features. What it has made of them is never kept: once tokens are committed, their
pairs are computed again from the target's features.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.backend.decoder import Decoder
from engine.backend.prefix_cache import PrefixCache
from engine.backend.round import Budget
from engine.backend.tree import TokenTree
from engine.speculative.drafters.drafter import DraftContext
from engine.speculative.drafters.model import DecoderDrafter


class HeadDrafter(DecoderDrafter):
    """Drafts with a feature head; its state holds pairs with the target's own features only.

    Args:
        name: name of the head for people.
        draft: the head.
        pool: keeps its states.
    """

    def __init__(self, name: str, draft: Decoder, pool: PrefixCache) -> None:
        super().__init__(name, draft, pool, skipped=1)
        self._first: int | None = None

    def _features(self, context: DraftContext, start: int, stop: int) -> NDArray[np.float32] | None:
        """Return the target's features of the token before each of the head's own."""
        return None if context.features is None else context.features.rows(start, stop)

    def begin_seconds(self, context: DraftContext) -> float:
        """Return the seconds for the pairs that no kept state has, at the last pace."""
        self._forget_others(context)
        return super().begin_seconds(context)

    def begin(self, context: DraftContext) -> None:
        """Take the kept state that has most pairs in common, and process the rest."""
        self._state = None
        if context.features is not None:
            self._forget_others(context)
            super().begin(context)

    def propose(self, context: DraftContext, budget: Budget) -> TokenTree:
        """Return the head's likeliest paths; the root alone where there are no features."""
        if context.features is None:
            return TokenTree.root(context.tokens[-1])
        return super().propose(context, budget)

    def observe(self, committed: Sequence[int]) -> None:
        """Forget all drafted nodes: their keys come from predicted features."""
        del committed
        if self._state is not None:
            self._state.discard()

    def _forget_others(self, context: DraftContext) -> None:
        """Drop the states of another first token: it shapes features but is in no state."""
        if self._first != context.tokens[0]:
            self._first = context.tokens[0]
            self._pool.empty()
