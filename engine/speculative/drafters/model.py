"""Drafters with a decoder of their own: their common base, stand-alone models, and feature heads.

A draft's state follows the committed tokens, reuses what it has of a prompt and reads the rest in
pieces, or only its end. Behind it grows the tree of a round, in one call where the decoder can.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from engine.backend.decoder import Decoder
from engine.backend.prefix_cache import PrefixCache
from engine.backend.round import Budget, DraftRequest
from engine.backend.sequence import ROOT, SequenceState
from engine.backend.tree import TokenTree, follow
from engine.plan.plan import USUAL
from engine.speculative.beginnings import CATCH_UP_CHUNK, Beginnings
from engine.speculative.costs import DraftCosts
from engine.speculative.drafters.drafter import DraftContext


class DecoderDrafter:
    """Follows a sequence with a decoder and drafts behind it.

    Args:
        draft: the draft model.
        pool: keeps its states.
        costs: what drafting takes; None: nothing is known.

    Attributes:
        costs: what drafting takes. Controllers go by it, and teach it.
    """

    _skipped = 0
    """So many of a sequence's first tokens are none of the draft's."""

    def __init__(self, draft: Decoder, pool: PrefixCache, costs: DraftCosts | None = None) -> None:
        self.costs = costs or DraftCosts(USUAL.levels)
        self._draft = draft
        self._pool = pool
        self._state: SequenceState | None = None
        self._beginnings = Beginnings(pool, self._skipped)

    def _features(self, context: DraftContext, start: int, stop: int) -> NDArray[np.float32] | None:
        """Return the features that go with the sequence's tokens start..stop-1, if any do."""
        del context, start, stop
        return None

    def begin(self, context: DraftContext) -> None:
        """Find the kept state that knows most of the tokens."""
        self._state = None
        self._beginnings.begin(context.tokens)

    def missing(self, context: DraftContext) -> int:
        """Return the tokens that no kept state knows; of all, once it began in the middle."""
        return self._beginnings.missing(len(context.tokens))

    def read(self, context: DraftContext, most: int) -> None:
        """See `Drafter`: take the kept state that knows most, and process the rest."""
        if not self._beginnings.choose(len(context.tokens), most):
            return
        own = context.tokens[self._beginnings.start :]
        state = self._state = self._pool.take(own)
        kept = min(state.common_prefix(own), max(len(own) - 1, 0))
        state.crop(kept)
        self._pool.snapshot(state)  # the border between two turns
        self._catch_up(state, context, leave=1)

    def at_once(self, context: DraftContext, most: int) -> TokenTree:
        """Return the root alone: drafting takes the model."""
        del most
        return TokenTree.root(context.tokens[-1])

    def propose(self, context: DraftContext, budget: Budget) -> TokenTree:
        """Return the draft's likeliest paths; the root alone once its own context is full."""
        root, state, start = context.tokens[-1], self._state, self._beginnings.start
        length = len(context.tokens) - start
        depth = min(budget.depth, self._pool.context - length + 1)
        if depth < 1 or budget.nodes < 1 or length < 1 or state is None:
            return TokenTree.root(root)
        state.crop(length - 1)
        if not self._catch_up(state, context, leave=CATCH_UP_CHUNK):
            return TokenTree.root(root)
        if depth < budget.depth:
            budget = replace(budget, depth=depth)
        ranking = self._beginnings.shifted(context.sampler.ranking)
        pending = context.tokens[start + len(state) :]
        features = self._features(context, start + len(state), start + length)
        request = DraftRequest(pending, ranking, budget, features)
        return self._draft.draft(state, request, context.cancelled)

    def _catch_up(self, state: SequenceState, context: DraftContext, *, leave: int) -> bool:
        """Process committed tokens that the draft has not seen; False when stopped on the way.

        The begun answer's tokens only ever grow, so those of the state are a part of them.
        """
        tokens, first = context.tokens, self._beginnings.start
        while (missing := len(tokens) - first - len(state)) > leave:
            if context.cancelled():
                return False
            start = first + len(state)
            stop = start + self._beginnings.piece(state, missing - leave)
            piece: Sequence[int] = tokens[start:stop]
            features = self._features(context, start, stop)
            self._draft.forward(state, piece, logit_rows=(), features=features)
            state.commit(range(len(piece)))
            self._beginnings.keep(state, missing - leave - len(piece))
        return True


class StandaloneDrafter(DecoderDrafter):
    """Drafts with a small decoder of the target's vocabulary; its state holds committed tokens.

    The tree grows level by level, as EAGLE-2's does (arXiv 2406.16858): the most promising nodes of
    a level go through the draft in one forward and offer their likeliest children.
    """

    def observe(self, committed: Sequence[int]) -> None:
        """Keep the keys of drafted nodes that were accepted, forget the rest."""
        state = self._state
        if state is not None:
            path = follow(state.staged, state.parents, committed, ROOT)
            state.commit(path[: state.context - len(state)])


class HeadDrafter(DecoderDrafter):
    """Drafts with a feature head from what the target itself has computed (DGF, EAGLE).

    Pair t of a head is the target's feature of token t beside token t + 1, from which it tells
    token t + 2. So its tokens are the sequence's without the first. Below the root of a tree its
    own outputs stand in for the features. What it has made of them is never kept: once tokens are
    committed, their pairs are computed again from the target's features.

    Args:
        draft: the head.
        pool: keeps its states.
        costs: what drafting takes; None: nothing is known.
    """

    _skipped = 1
    _first: int | None = None
    """The first token of the sequences that its states are of."""

    def _features(self, context: DraftContext, start: int, stop: int) -> NDArray[np.float32] | None:
        """Return the target's features of the token before each of these."""
        return None if context.features is None else context.features.rows(start - 1, stop - 1)

    def begin(self, context: DraftContext) -> None:
        """Find the kept state that has most pairs in common."""
        if self._first != context.tokens[0]:  # it shapes features, but is in no state
            self._first = context.tokens[0]
            self._pool.empty()
        super().begin(context)

    def missing(self, context: DraftContext) -> int:
        """Return the pairs that no kept state has; 0 where there are no features."""
        return 0 if context.features is None else super().missing(context)

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
