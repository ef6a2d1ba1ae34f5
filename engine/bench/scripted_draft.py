"""A draft of known acceptance: the draft model really runs, but what it proposes is written down.

The script knows the target's text. The draft is right at random positions, as many of every stretch
as the given probability says, so that short answers have it, too. The words are put into the
draft's mouth where it ranks its candidates, so all that a draft costs is there: its forwards, its
caches, its catching up, the choice among all tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log

import numpy as np

from engine.backend.round import Budget, Script
from engine.backend.tree import TokenTree
from engine.model.weights.readable import Floats
from engine.request import SamplingParams
from engine.speculative.drafters.drafter import DraftContext, Drafter
from engine.speculative.sampler import Sampler
from engine.speculative.serial_controller import SerialController

NODES = 15
"""Of trees of fixed depth, as in arXiv 2412.18934."""
STRETCH = 50
"""Tokens of which a known share is right."""


def script(tokens: Sequence[int], vocab: int, acceptance: float, seed: int) -> Script:
    """What the draft says at each position.

    Args:
        tokens: the prompt and the target's own greedy text.
        vocab: number of tokens.
        acceptance: probability of the right token.
        seed: chooses the positions.
    """
    rng, stretches = np.random.default_rng(seed), -(-len(tokens) // STRETCH)
    wanted = np.arange(STRETCH) < round(acceptance * STRETCH)
    right = np.concatenate([rng.permutation(wanted) for _ in range(stretches)])[: len(tokens)]
    lines = [
        token if known else (token + 1) % vocab for token, known in zip(tokens, right, strict=True)
    ]
    return Script(lines, log(max(acceptance, 1e-3)))


class ScriptedDrafter:
    """A drafter that runs as it would, and proposes chains from a script.

    With `trees` it proposes whole trees, in which the script's path is the likeliest; the other
    nodes are what the draft itself says, and cost what they cost.
    """

    def __init__(self, inner: Drafter, lines: Script, *, trees: bool = False) -> None:
        self._inner, self._trees = inner, trees
        self._sampler = _Prompter(lines)

    @property
    def name(self) -> str:
        """Name for people."""
        return f"{self._inner.name}, scripted"

    def begin_seconds(self, context: DraftContext) -> float:
        """As the draft itself."""
        return self._inner.begin_seconds(context)

    def begin(self, context: DraftContext) -> None:
        """As the draft itself."""
        self._inner.begin(context)

    def propose(self, context: DraftContext, budget: Budget) -> TokenTree:
        """The script's next tokens, as a chain or at the top of a tree."""
        if not self._trees:
            budget = replace(budget, nodes=min(budget.nodes, budget.depth), width=1)
        return self._inner.propose(replace(context, sampler=self._sampler), budget)

    def observe(self, committed: Sequence[int]) -> None:
        """As the draft itself."""
        self._inner.observe(committed)


class _Prompter(Sampler):
    """Ranks the script's token first, with the probability that it is right."""

    def __init__(self, lines: Script) -> None:
        super().__init__(SamplingParams())
        self.ranking = replace(self.ranking, script=lines)
        self._lines = lines

    def rank(self, logits: Floats, position: int) -> Floats:
        """The same where the draft ranks here, level by level."""
        weights = super().rank(logits, position)
        said, likely = self._lines.tokens, np.float32(self._lines.weight)
        np.minimum(weights, likely - 1, out=weights)
        weights[:, said[position] if position < len(said) else 0] = likely
        return weights


class FixedDepth(SerialController):
    """Drafts chains of one length, or trees of one depth, come what may.

    Args:
        depth: levels.
        width: nodes of a level.
        nodes: of a tree; chains have as many as levels.
    """

    def __init__(self, depth: int, width: int = 1, nodes: int = NODES) -> None:
        super().__init__(forced=True)
        self._depth, self._width, self._nodes = depth, width, nodes

    def next_budget(self, most_depth: int) -> Budget | None:
        """The same each round, as far as the answer's end allows."""
        depth = min(self._depth, most_depth)
        if not depth:
            return None
        return Budget(depth if self._width == 1 else self._nodes, depth, self._width)

    def prune(self, tree: TokenTree) -> TokenTree:
        """All of it."""
        return tree
