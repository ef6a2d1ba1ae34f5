"""A stand-alone draft model: a small decoder with the target's vocabulary, drafting a tree.

The tree grows level by level (as EAGLE-2 does): the most promising nodes of a level go through the
draft in one forward and offer their likeliest children. Cost: one draft forward per level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from engine.decode.tree import TokenTree, follow
from engine.draft.drafter import Budget, DraftContext
from engine.model.decoder import Decoder
from engine.model.pool import StatePool
from engine.model.sequence import ROOT, SequenceState

CATCH_UP_CHUNK = 64
"""Committed tokens processed at once; the user's stop is obeyed in between."""


class StandaloneDrafter:
    """Drafts with a decoder of its own; its state holds committed tokens only.

    Args:
        name: name of the draft model for people.
        draft: the draft model.
        pool: keeps its states.
    """

    def __init__(self, name: str, draft: Decoder, pool: StatePool) -> None:
        self._name = name
        self._draft = draft
        self._pool = pool
        self._state: SequenceState | None = None
        self._pace = 0.0  # seconds per token when catching up

    @property
    def name(self) -> str:
        """Name for people."""
        return self._name

    def begin_seconds(self, context: DraftContext) -> float:
        """The tokens that no kept state has, at the pace of the last time."""
        return (len(context.tokens) - self._pool.common_prefix(context.tokens)) * self._pace

    def begin(self, context: DraftContext) -> None:
        """Take the kept state that has most in common with the tokens, and process the rest."""
        tokens = context.tokens
        state = self._state = self._pool.take(tokens)
        state.crop(state.reusable(min(state.common_prefix(tokens), len(tokens) - 1)))
        missing = len(tokens) - len(state)
        if len(tokens) > self._pool.context:
            return
        start = perf_counter()
        if self._catch_up(state, context, leave=1) and missing > CATCH_UP_CHUNK // 4:
            self._pace = (perf_counter() - start) / missing

    def observe(self, committed: Sequence[int]) -> None:
        """Keep the keys of drafted nodes that were accepted, forget the rest."""
        state = self._state
        if state is not None:
            path = follow(state.staged, state.parents, committed, ROOT)
            state.commit(path[: state.context - len(state)])

    def propose(self, context: DraftContext, budget: Budget) -> TokenTree:
        """A tree of the draft's likeliest paths; just the root once its own context is full."""
        tokens, state = context.tokens, self._state
        depth = min(budget.depth, self._pool.context - len(tokens) + 1)
        if depth < 1 or budget.nodes < 1 or state is None:
            return TokenTree.root(tokens[-1])
        state.crop(state.reusable(len(tokens) - 1))
        if not self._catch_up(state, context, leave=CATCH_UP_CHUNK):
            return TokenTree.root(tokens[-1])
        if depth < budget.depth:
            budget = replace(budget, depth=depth)
        if not self._draft.drafts_trees:
            return self._grow(state, context, budget)
        tree = self._draft.draft(state, tokens[len(state) :], context.sampler.ranking, budget)
        return TokenTree(tree.tokens, tree.parents, tree.scores)

    def _catch_up(self, state: SequenceState, context: DraftContext, *, leave: int) -> bool:
        """Process committed tokens that the draft has not seen; False when stopped on the way.

        The begun answer's tokens only ever grow, so those of the state are a beginning of them.
        """
        tokens = context.tokens
        while (missing := len(tokens) - len(state)) > leave:
            if context.cancelled():
                return False
            start = len(state)
            piece = tokens[start : start + min(CATCH_UP_CHUNK, missing - leave)]
            self._draft.forward(state, piece, logit_rows=())
            state.commit(range(len(piece)))
        return True

    def _grow(self, state: SequenceState, context: DraftContext, budget: Budget) -> TokenTree:
        """The tree with one forward per level; what `Decoder.draft` does in one call."""
        pending = context.tokens[len(state) :]
        logits = self._draft.forward(state, pending, logit_rows=(len(pending) - 1,)).logits
        state.commit(range(len(pending)))
        position = len(state)
        nodes: list[tuple[int, int, float]] = []
        # Beams of the level: (node in `nodes` + 1, staged node, score).
        beams = [(0, ROOT, 0.0)]
        for level in range(budget.depth):
            weights = context.sampler.rank(logits, position + level)
            children = _likeliest(weights, [score for _, _, score in beams], budget.width)
            first = len(nodes) + 1
            nodes.extend((beams[beam][0], token, score) for beam, token, score in children)
            best = sorted(range(len(children)), key=lambda i: -children[i][2])[: budget.width]
            mass = float(np.exp([children[i][2] for i in best]).sum())
            if level + 1 == budget.depth or mass < budget.floor or context.cancelled():
                break
            parents = [beams[children[i][0]][1] for i in best]
            staged = len(state.staged)
            if position + staged + len(best) > state.slots:
                break
            forward = self._draft.forward(state, [children[i][1] for i in best], parents)
            logits = forward.logits
            beams = [(first + i, staged + row, children[i][2]) for row, i in enumerate(best)]
        return TokenTree.build(context.tokens[-1], nodes, most=budget.nodes)


def _likeliest(
    weights: NDArray[np.float32], above: Sequence[float], width: int
) -> list[tuple[int, int, float]]:
    """Per row, the `width` likeliest tokens: (row, token, score of the path), best first."""
    rows, vocab = weights.shape
    width = min(width, vocab)
    top = np.argpartition(weights, vocab - width, axis=1)[:, vocab - width :]
    children: list[tuple[int, int, float]] = []
    for row in range(rows):
        order = top[row][np.argsort(-weights[row, top[row]], kind="stable")]
        children.extend(
            (row, int(token), above[row] + float(weights[row, token])) for token in order
        )
    return children
