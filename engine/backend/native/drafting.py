"""The native call that drafts a tree: its arguments and results, at addresses that stay."""

from __future__ import annotations

import ctypes as c
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.backend.ledger import Account
from engine.backend.native.library import (
    DraftingStruct,
    SamplingStruct,
    library,
    pointer,
    refusal,
)
from engine.backend.native.memory import reserve
from engine.backend.native.sizes import DEPTH, PENDING, WIDTH
from engine.backend.round import Budget, Drafted, Ranking
from engine.backend.tree import TokenTree
from engine.model.weights.readable import Floats

PATIENCE = 0.1
"""Seconds after which no further level is begun, so that the user's stop is obeyed."""


class DraftCall:
    """dt_draft for one segment.

    Args:
        pool: handle of the thread pool.
        segment: a reference to the segment's structure.
        account: where its memory is entered.
    """

    def __init__(self, pool: int, segment: Any, account: Account) -> None:  # noqa: ANN401 (ctypes has no name for it)
        self._account = account
        self._sampling, self._struct = SamplingStruct(), DraftingStruct()
        self._ranking: Ranking | None = None
        self._before = pool, segment
        self._call = c.byref(self._struct)
        self._scratch: NDArray[np.uint8] | None = None
        self._reserve(64, 64, 64)

    def __call__(
        self,
        cache: int,
        committed: int,
        slots: int,
        pending: Sequence[int],
        ranking: Ranking,
        budget: Budget,
        features: Floats | None,
    ) -> Drafted:
        """See `engine.backend.segment.Segment.draft`; `cache` is a handle."""
        count, nodes, depth, width = len(pending), budget.nodes, budget.depth, budget.width
        room = self._room
        if count > room[0] or nodes > room[1] or (depth - 1) * width > room[2]:
            self._reserve(count, nodes, (depth - 1) * width)
        if ranking is not self._ranking:
            self._rank_as(ranking)
        native = self._struct
        native.committed, native.pending, native.slots = committed, count, slots
        native.nodes, native.depth, native.width = nodes, depth, width
        native.floor, native.seconds = budget.floor, PATIENCE
        native.features = pointer(features)
        self._tokens[:count] = list(pending)
        scratch = self._room_to_work()
        sampling = c.byref(self._sampling)
        if result := library().dt_draft(*self._before, cache, sampling, scratch, self._call):
            raise refusal(result)
        nodes, staged = native.tree_nodes, native.staged
        tree = TokenTree(
            tuple(self._tree_tokens[:nodes]),
            tuple(self._parents[:nodes]),
            tuple(self._scores[:nodes]),
        )
        return Drafted(tree, self._staged_tokens[:staged], self._staged_parents[:staged])

    def _room_to_work(self) -> int | None:
        """Address of scratch memory for the call, however small it is this time."""
        native = self._struct
        own = native.pending, native.depth, native.width
        native.pending, native.depth, native.width = map(max, own, (PENDING, DEPTH, WIDTH))
        needed = library().dt_draft_bytes(self._before[1], self._call)
        native.pending, native.depth, native.width = own
        if self._scratch is None or needed > self._scratch.nbytes:
            self._scratch = None  # the old one goes first
            self._scratch = reserve(self._account, (needed,))
        return pointer(self._scratch)

    def _reserve(self, pending: int, nodes: int, staged: int) -> None:
        """Room for so many pending tokens, nodes and staged nodes, and for some more."""
        self._room = pending, nodes, staged = 2 * pending, 2 * nodes, 2 * staged
        self._tokens = (c.c_int32 * pending)()
        self._tree_tokens, self._parents = (c.c_int32 * (nodes + 1))(), (c.c_int32 * (nodes + 1))()
        self._scores = (c.c_double * (nodes + 1))()
        self._staged_tokens, self._staged_parents = (c.c_int32 * staged)(), (c.c_int32 * staged)()
        native = self._struct
        native.tokens, native.tree_scores = c.addressof(self._tokens), c.addressof(self._scores)
        native.tree_tokens = c.addressof(self._tree_tokens)
        native.tree_parents = c.addressof(self._parents)
        native.staged_tokens = c.addressof(self._staged_tokens)
        native.staged_parents = c.addressof(self._staged_parents)

    def _rank_as(self, ranking: Ranking) -> None:
        self._ranking = ranking
        self._sampling.temperature = ranking.temperature
        self._sampling.seed = ranking.seed
        self._sampling.share_noise = ranking.share_noise
