"""A stand-alone draft model: a small decoder with the target's vocabulary, drafting a tree.

The tree grows level by level (as EAGLE-2 does): the most promising nodes of a level go through the
draft in one forward and offer their likeliest children. Cost: one draft forward per level.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from engine.decode.tree import TokenTree
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
        self._state = self._pool.take(context.tokens)
        missing = len(context.tokens) - self._state.common_prefix(context.tokens)
        if len(context.tokens) > self._pool.context:
            return
        start = perf_counter()
        if self._catch_up(self._state, context) is not None and missing > CATCH_UP_CHUNK // 4:
            self._pace = (perf_counter() - start) / missing

    def observe(self, committed: Sequence[int]) -> None:
        """Keep the keys of drafted nodes that were accepted, forget the rest."""
        state = self._state
        if state is None:
            return
        below = {
            (parent, token): node
            for node, (parent, token) in enumerate(zip(state.parents, state.staged, strict=True))
        }
        path: list[int] = []
        node = ROOT
        for token in committed:
            child = below.get((node, token))
            if child is None:
                break
            path.append(child)
            node = child
        state.commit(path[: state.context - len(state)])

    def propose(self, context: DraftContext, budget: Budget) -> TokenTree:
        """A tree of the draft's likeliest paths; just the root once its own context is full."""
        root = context.tokens[-1]
        position = len(context.tokens)
        depth = min(budget.depth, self._pool.context - position + 1)
        state = self._state
        if depth < 1 or budget.nodes < 1 or state is None:
            return TokenTree.root(root)
        logits = self._catch_up(state, context)
        if logits is None:
            return TokenTree.root(root)
        nodes: list[tuple[int, int, float]] = []
        # Beams of the level: (node in `nodes` + 1, staged node, score).
        beams = [(0, ROOT, 0.0)]
        for level in range(depth):
            weights = context.sampler.rank(logits, position + level)
            children = _likeliest(weights, [score for _, _, score in beams], budget.width)
            first = len(nodes) + 1
            nodes.extend((beams[beam][0], token, score) for beam, token, score in children)
            best = sorted(range(len(children)), key=lambda i: -children[i][2])[: budget.width]
            mass = float(np.exp([children[i][2] for i in best]).sum())
            if level + 1 == depth or mass < budget.floor or context.cancelled():
                break
            parents = [beams[children[i][0]][1] for i in best]
            staged = len(state.staged)
            forward = self._draft.forward(state, [children[i][1] for i in best], parents)
            logits = forward.logits
            beams = [(first + i, staged + row, children[i][2]) for row, i in enumerate(best)]
        return TokenTree.build(root, nodes, most=budget.nodes)

    def _catch_up(self, state: SequenceState, context: DraftContext) -> NDArray[np.float32] | None:
        """Process the committed tokens the draft has not seen; logits [1, vocab] at the root."""
        tokens = context.tokens
        state.crop(state.reusable(min(state.common_prefix(tokens), len(tokens) - 1)))
        while True:
            if context.cancelled():
                return None
            start = len(state)
            piece = tokens[start : start + CATCH_UP_CHUNK]
            last = start + len(piece) == len(tokens)
            wanted = (len(piece) - 1,) if last else ()
            forward = self._draft.forward(state, piece, logit_rows=wanted)
            state.commit(range(len(piece)))
            if last:
                return forward.logits


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
