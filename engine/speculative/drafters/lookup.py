"""Lookup drafting: what followed the last few tokens earlier in this conversation.

Costs no model at all (prompt lookup decoding). Long repeats, code edits and summaries profit most.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log

from engine.backend.round import Budget
from engine.backend.tree import TokenTree
from engine.speculative.drafters.drafter import DraftContext

LONGEST = 4
SHORTEST = 2
BRANCHES = 2
"""Most different continuations proposed at once."""

_PRIOR_HITS, _PRIOR_TRIES = 1.0, 2.0
_FORGET = 0.98


class LookupDrafter:
    """Index of every n-gram (SHORTEST..LONGEST tokens) of the current sequence."""

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._places: dict[tuple[int, ...], list[int]] = {}
        # Per match length: how often the first proposed token was right (forgetting).
        self._hits = dict.fromkeys(range(SHORTEST, LONGEST + 1), _PRIOR_HITS)
        self._tries = dict.fromkeys(range(SHORTEST, LONGEST + 1), _PRIOR_TRIES)
        self._proposed: tuple[int, frozenset[int]] | None = None

    def begin(self, context: DraftContext) -> None:
        """Index the tokens; what is indexed already stays."""
        tokens = context.tokens
        self._proposed = None
        kept = len(self._tokens)
        if list(tokens[:kept]) != self._tokens:
            self._tokens, kept = [], 0
            self._places.clear()
        self._append(tokens[kept:])

    def missing(self, context: DraftContext) -> int:
        """Return 0: indexing costs next to nothing."""
        del context
        return 0

    def read(self, context: DraftContext, most: int) -> None:
        """Do nothing: the tokens are indexed from the beginning."""

    def observe(self, committed: Sequence[int]) -> None:
        """Index the committed tokens and learn whether the last proposal was right."""
        if self._proposed is not None and committed:
            length, firsts = self._proposed
            self._hits[length] = self._hits[length] * _FORGET + (committed[0] in firsts)
            self._tries[length] = self._tries[length] * _FORGET + 1
            self._proposed = None
        self._append(committed)

    def propose(self, context: DraftContext, budget: Budget) -> TokenTree:
        """Return continuations of the longest suffix that occurred before, the latest first."""
        root = context.tokens[-1]
        self._proposed = None
        for length in range(LONGEST, SHORTEST - 1, -1):
            places = self._places.get(tuple(self._tokens[-length:]), ())
            # The suffix itself is its own last occurrence.
            earlier = [place for place in places if place < len(self._tokens)]
            if earlier and budget.nodes > 0 and budget.depth > 0:
                return self._tree(root, length, earlier, budget)
        return TokenTree.root(root)

    def _tree(self, root: int, length: int, places: list[int], budget: Budget) -> TokenTree:
        chance = self._hits[length] / self._tries[length]
        nodes: list[tuple[int, int, float]] = []
        firsts: set[int] = set()
        for place in reversed(places):
            continuation = self._tokens[place : place + budget.depth]
            if continuation[0] in firsts:
                continue
            firsts.add(continuation[0])
            score, parent = log(1 / len(firsts)), 0
            for token in continuation:
                score += log(chance)
                nodes.append((parent, token, score))
                parent = len(nodes)
                # A match that goes on is a longer match, hence a surer one.
                chance = max(chance, 0.8)
            chance = self._hits[length] / self._tries[length]
            if len(firsts) == BRANCHES:
                break
        self._proposed = (length, frozenset(firsts))
        return TokenTree.build(root, nodes, most=budget.nodes, weights=[None] * len(nodes))

    def _append(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            self._tokens.append(token)
            end, latest = len(self._tokens), tuple(self._tokens[-LONGEST:])
            for length in range(SHORTEST, len(latest) + 1):
                places = self._places.setdefault(latest[-length:], [])
                places.append(end)
                if len(places) > BRANCHES * 4:
                    del places[0]
