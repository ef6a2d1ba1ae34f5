"""A tree grown with one draft forward per level; engine/native/draft.c does it in one call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.backend.decoder import Decoder
from engine.backend.round import Budget
from engine.backend.sequence import ROOT, SequenceState
from engine.backend.tree import TokenTree
from engine.speculative.drafters.drafter import DraftContext


def grow(
    draft: Decoder,
    state: SequenceState,
    pending: Sequence[int],
    context: DraftContext,
    budget: Budget,
    features: NDArray[np.float32] | None = None,
) -> TokenTree:
    """Process and commit `pending`, then draft a tree behind it.

    Args:
        draft: the draft model.
        state: its state; the tree's inner nodes are staged in it afterwards.
        pending: committed tokens that the draft has not seen, at least one.
        context: ranks candidates, and says when to stop.
        budget: how far the tree may grow.
        features: those of a head's pending tokens, fp32 [pending, width]; deeper down the outputs
            of a node's parent take their place.
    """
    last = len(pending) - 1
    forward = draft.forward(state, pending, logit_rows=(last,), features=features)
    state.commit(range(len(pending)))
    outputs, behind, position = forward.hidden[last:], len(state), len(context.tokens)
    nodes: list[tuple[int, int, float]] = []
    # Beams of the level: (node in `nodes` + 1, staged node, score).
    beams = [(0, ROOT, 0.0)]
    for level in range(budget.depth):
        weights = context.sampler.rank(draft.over_vocabulary(forward.logits), position + level)
        children = likeliest(weights, [score for _, _, score in beams], budget.width)
        first = len(nodes) + 1
        nodes.extend((beams[beam][0], token, score) for beam, token, score in children)
        best = sorted(range(len(children)), key=lambda i: -children[i][2])[: budget.width]
        mass = float(np.exp([children[i][2] for i in best]).sum())
        if level + 1 == budget.depth or not best or mass < budget.floor or context.cancelled():
            break
        above = [children[i][0] for i in best]
        staged = len(state.staged)
        if behind + staged + len(best) > state.slots:
            break
        forward = draft.forward(
            state,
            [children[i][1] for i in best],
            [beams[beam][1] for beam in above],
            features=None if features is None else outputs[above],
        )
        outputs = forward.hidden
        beams = [(first + i, staged + row, children[i][2]) for row, i in enumerate(best)]
    return TokenTree.build(context.tokens[-1], nodes, most=budget.nodes)


def likeliest(
    weights: NDArray[np.float32], above: Sequence[float], width: int
) -> list[tuple[int, int, float]]:
    """Per row, the `width` likeliest tokens: (row, token, score of the path), best first.

    Args:
        weights: log probabilities, fp32 [rows, vocab]; what is no number is no candidate.
        above: score of each row's path.
        width: most tokens of a row.
    """
    rows, vocab = weights.shape
    width = min(width, vocab)
    weights = np.where(np.isnan(weights), -np.inf, weights)
    top = np.argpartition(weights, vocab - width, axis=1)[:, vocab - width :]
    children: list[tuple[int, int, float]] = []
    for row in range(rows):
        order = top[row][np.argsort(-weights[row, top[row]], kind="stable")]
        children.extend(
            (row, int(token), above[row] + float(weights[row, token]))
            for token in order
            if weights[row, token] > -np.inf
        )
    return children
