"""A draft of known acceptance: the draft model really runs, but a script says what it proposes.

The script knows the target's text. The draft is right at random positions, as many of every stretch
as the given probability says, so that short answers have it, too. All that a draft costs is there:
its forwards, its caches, its catching up, the choice among all tokens. Only then are the tokens of
its likeliest path renamed, in what it proposes and in what its state has staged, so that its cache
keeps what is accepted as that of a trained draft would. The numbers in the cache are those of other
tokens, which does not matter: weights are random where this is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log

import numpy as np

from engine.backend.decoder import Decoder, Forward
from engine.backend.native.pool import CancelFlag
from engine.backend.round import Budget, Candidates, DraftRequest, Expanded, Ranking
from engine.backend.sequence import ROOT, SequenceState
from engine.backend.tree import TokenTree
from engine.model.config import ModelConfig
from engine.model.weights.readable import Floats
from engine.speculative.controller import Controller

NODES = 15
"""Drafted nodes of a tree of fixed depth, as in arXiv 2412.18934."""
STRETCH = 50
"""Tokens of which a known share is right."""
_LEAST = 1e-3
"""Smallest probability whose logarithm is taken."""


@dataclass(frozen=True, slots=True)
class Script:
    """A draft's proposals by position.

    Attributes:
        text: the prompt and the target's own greedy text.
        right: at which positions the draft proposes the target's own token.
        acceptance: the probability that it gives what it proposes.
        vocab: number of tokens.
    """

    text: Sequence[int]
    right: Sequence[bool]
    acceptance: float
    vocab: int

    @classmethod
    def write(cls, text: Sequence[int], vocab: int, acceptance: float, seed: int) -> Script:
        """Choose the positions at which the draft is right.

        Args:
            text: the prompt and the target's own greedy text.
            vocab: number of tokens.
            acceptance: share of the positions.
            seed: of the choice.
        """
        rng, stretches = np.random.default_rng(seed), -(-len(text) // STRETCH)
        wanted = np.arange(STRETCH) < round(acceptance * STRETCH)
        right = np.concatenate([rng.permutation(wanted) for _ in range(stretches)])
        return cls(text, right[: len(text)].tolist(), acceptance, vocab)

    @property
    def weight(self) -> float:
        """Logarithm of the probability of what is proposed."""
        return log(max(self.acceptance, _LEAST))

    def right_at(self, position: int) -> int:
        """Return the target's own token; 0 behind the text."""
        return self.text[position] if position < len(self.text) else 0

    def token(self, position: int) -> int:
        """Return the token that the draft proposes; behind the text it is wrong."""
        right = self.right_at(position)
        known = position < len(self.text) and self.right[position]
        return right if known else (right + 1) % self.vocab

    def depth(self, budget: Budget) -> int:
        """Levels that are drafted until the path is too unlikely for the budget."""
        depth = 1
        while depth < budget.depth and exp(depth * self.weight) >= budget.floor:
            depth += 1
        return min(depth, budget.depth)


class ScriptedDraft(Decoder):
    """A draft model that proposes what a script says, at the cost of its own proposals.

    Args:
        draft: what computes.
        trees: whether it may propose more than the script's path, which is the likeliest then.

    Attributes:
        script: what it proposes; it is needed before anything is drafted.
    """

    script: Script

    def __init__(self, draft: Decoder, *, trees: bool = False) -> None:
        super().__init__(draft.config, draft.segments, draft.ids)
        self._trees = trees
        head = isinstance(draft.config, ModelConfig) and draft.config.fusion is not None
        self._ahead = 2 if head else 1  # positions from a row to what it proposes
        self._shift = 0  # tokens before the first that it has read

    def draft(
        self,
        state: SequenceState,
        request: DraftRequest,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> TokenTree:
        """Draft a tree (see `Decoder.draft`) and give its likeliest path the script's tokens."""
        script, budget = self.script, request.budget
        if not self._trees:
            budget = replace(budget, nodes=min(budget.nodes, budget.depth), width=1)
        self._shift = request.ranking.shift
        position = self._shift + len(state) + len(request.pending) - 1 + self._ahead
        # The floor is meant for the script's probabilities, which the model knows nothing of.
        own = replace(budget, depth=script.depth(budget), floor=0.0)
        tree = super().draft(state, replace(request, budget=own), cancelled)
        path = [script.token(position + level) for level in range(own.depth)]
        path = path[: min(_rename_staged(state, path) + 1, tree.drafted)]
        return _renamed(tree, path, script.weight, budget.nodes)

    def expand(
        self,
        state: SequenceState,
        tokens: Sequence[int],
        parents: Sequence[int],
        wanted: Sequence[int],
        ranking: Ranking,
        width: int,
        cancel: CancelFlag | None = None,
        features: Floats | None = None,
    ) -> Expanded | None:
        """Rank candidates (see `Decoder.expand`) behind the script's token, the best."""
        self._shift = ranking.shift
        first, script = len(state.staged), self.script
        found = super().expand(state, tokens, parents, wanted, ranking, width, cancel, features)
        if found is None:
            return None
        scripted = [
            _behind(script, self._place(state, first + row), own)[:width]
            for row, own in zip(wanted, found.candidates, strict=True)
        ]
        return replace(found, candidates=scripted)

    def forward(
        self,
        state: SequenceState,
        tokens: Sequence[int],
        parents: Sequence[int] | None = None,
        *,
        logit_rows: Sequence[int] | None = None,
        taps: tuple[int, ...] = (),
        features: Floats | None = None,
        cancel: CancelFlag | None = None,
    ) -> Forward:
        """Compute nodes (see `Decoder.forward`); the script's token has the largest logit.

        So a model drafts that cannot do it in one call.
        """
        first = len(state.staged)
        done = super().forward(
            state,
            tokens,
            parents,
            logit_rows=logit_rows,
            taps=taps,
            features=features,
            cancel=cancel,
        )
        rows = range(len(tokens)) if logit_rows is None else sorted(logit_rows)
        for row, logits in zip(rows, done.logits, strict=True):
            self._favour(logits, self._place(state, first + row))
        return done

    def _place(self, state: SequenceState, node: int) -> int:
        """Return the place in the text of what a staged node proposes."""
        return self._shift + _position(state, node) + self._ahead

    def _favour(self, logits: Floats, position: int) -> None:
        """Raise the logit of the script's token to its probability, at least above all others."""
        script = self.script
        row = script.token(position)
        if self.ids is not None:
            (rows,) = np.nonzero(self.ids == row)
            if not len(rows):
                return
            row = int(rows[0])
        logits[row] = -inf
        best = float(logits.max())
        share = min(max(script.acceptance, _LEAST), 1 - _LEAST)
        odds = best + log(float(np.exp(logits - best).sum()) * share / (1 - share))
        logits[row] = max(odds, best + _LEAST)


class FixedDepth(Controller):
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
        """Return the fixed budget, cut down near the answer's end."""
        depth = min(self._depth, most_depth)
        if not depth:
            return None
        return Budget(depth if self._width == 1 else self._nodes, depth, self._width)

    def to_read(self, missing: int, remaining: int) -> int:
        """Return all that is missing, at whatever price."""
        del remaining
        return missing

    def prune(self, tree: TokenTree) -> TokenTree:
        """Return the whole tree."""
        return tree


def _renamed(tree: TokenTree, path: Sequence[int], weight: float, most: int) -> TokenTree:
    """The tree with these tokens along its likeliest path, of at most so many nodes.

    A path that is longer than the tree's own goes on behind it.

    Args:
        tree: as drafted.
        path: tokens below the root.
        weight: logarithm of the probability of each.
        most: drafted nodes that stay.
    """
    scores = [weight * level for level in range(len(path) + 1)]
    if tree.drafted == len(path):  # a chain
        return TokenTree((tree.tokens[0], *path), tuple(range(-1, len(path))), tuple(scores))
    nodes = [(level, token, scores[level + 1]) for level, token in enumerate(path)]
    place, on_path = {0: 0}, 0
    for node in range(1, len(tree)):
        above = tree.parents[node]
        if above == on_path and place[above] < len(path):  # ranked: the first child is the best
            place[node], on_path = place[above] + 1, node
            continue
        score = scores[place[above]] + tree.scores[node] - tree.scores[above]
        nodes.append((place[above], tree.tokens[node], score))
        place[node] = len(nodes)
        scores.append(score)
    return TokenTree.build(tree.tokens[0], nodes, most)


def _rename_staged(state: SequenceState, path: Sequence[int]) -> int:
    """Let the first staged node of every level have the path's token, one below the other.

    Returns:
        The number of staged levels.
    """
    tokens, parents = list(state.staged), list(state.parents)
    depths, level, last = list[int](), 0, ROOT
    for node, parent in enumerate(parents):
        depths.append(0 if parent == ROOT else depths[parent] + 1)
        if depths[node] == level:
            tokens[node], parents[node] = path[level], last
            level, last = level + 1, node
    if tokens:
        state.discard()
        state.adopt(tokens, parents)
    return level


def _behind(script: Script, position: int, own: Candidates) -> Candidates:
    """Return the script's token, and behind it the draft's own, which are never right."""
    said, right = script.token(position), script.right_at(position)
    rest = log(max(1 - script.acceptance, _LEAST))
    others = [
        (token, min(weight + rest, script.weight))
        for token, weight in own
        if token not in (said, right)
    ]
    return [(said, script.weight), *others]


def _position(state: SequenceState, node: int) -> int:
    """Return the position of a staged node in what the draft has read."""
    position = len(state)
    while (node := state.parents[node]) != ROOT:
        position += 1
    return position
