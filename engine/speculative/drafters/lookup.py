"""Lookup drafting: what followed the last few tokens earlier in this conversation.

Costs no model at all (prompt lookup decoding). Text that is copied profits most: code that is
edited, quotations, new layouts of what was said. The longest match comes first, and how long it is
tells how far it will go on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import log

from engine.backend.round import Budget
from engine.backend.tree import TokenTree
from engine.speculative.drafters.drafter import DraftContext

SHORTEST, KEYS = 2, (6, 3, 2)
"""Fewest tokens of a match, and lengths by which earlier places are found."""
LONGEST = 32
"""So many equal tokens are as good as any more."""
BRANCHES = 2
"""Most different continuations proposed at once."""
MOST = 31
"""Tokens of a continuation at most."""
_PLACES = 8
"""Latest places that are remembered of a key."""
_LENGTHS = (2, 3, 4, 6, 10, 16, LONGEST)
_PRIORS = (0.3, 0.45, 0.6, 0.75, 0.88, 0.94, 0.97)
"""Lengths of matches that are told apart, and the probability that they go on."""
_PRIOR_TRIES = 4.0
_MOST_TRIES = 8.0
"""Tries that earlier answers count as where an answer begins."""
_FORGET = 0.98
_LEAST = 0.02
"""A path that is less likely to go on is not worth a row."""


class LookupDrafter:
    """Index of the last tokens of every place in the current sequence."""

    costs = None

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._places: dict[tuple[int, ...], list[int]] = defaultdict(list)
        # By length of the match: how often the next token was right (forgetting).
        self._hits = [prior * _PRIOR_TRIES for prior in _PRIORS]
        self._tries = [_PRIOR_TRIES] * len(_PRIORS)
        self._proposed: list[tuple[int, list[int]]] = []  # length and continuation

    def begin(self, context: DraftContext) -> None:
        """Index the tokens; what is indexed already stays."""
        tokens = context.tokens
        self._proposed = []
        for place, tries in enumerate(self._tries):
            kept = min(_MOST_TRIES / tries, 1.0)
            self._hits[place] *= kept
            self._tries[place] *= kept
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
        """Index the committed tokens and learn how far the last proposals went on."""
        for length, continuation in self._proposed[:1]:
            for more, (token, own) in enumerate(zip(committed, continuation, strict=False)):
                place = _class_of(length + more)
                self._hits[place] = self._hits[place] * _FORGET + (token == own)
                self._tries[place] = self._tries[place] * _FORGET + 1
                if token != own:
                    break
        self._proposed = []
        self._append(committed)

    def propose(self, context: DraftContext, budget: Budget) -> TokenTree:
        """Return continuations of the longest suffix that occurred before, the latest first."""
        root = context.tokens[-1]
        nodes: list[tuple[int, int, float]] = []
        self._proposed = self._continuations(()) if budget.nodes > 0 and budget.depth > 0 else []
        for rank, (length, continuation) in enumerate(self._proposed):
            parent, score = 0, -log(rank + 1)
            for token, chance in zip(
                continuation[: budget.depth], self._chances(length), strict=False
            ):
                score += chance
                nodes.append((parent, token, score))
                parent = len(nodes)
        return TokenTree.build(root, nodes, most=budget.nodes, weights=[None] * len(nodes))

    def at_once(self, context: DraftContext, most: int) -> TokenTree:
        """Return its proposal: all of it costs next to nothing."""
        return self.propose(context, Budget(BRANCHES * MOST, most, BRANCHES))

    def extended(self, tree: TokenTree) -> TokenTree:
        """Return a tree whose likeliest path goes on as what it ends with went on earlier."""
        path, node = list[int](), 0
        while (child := tree.child(node)) is not None:
            path.append(tree.tokens[child])
            node = child
        found = self._continuations(path)[:1]
        if not path or not found:
            return tree
        (length, continuation), score = found[0], tree.scores[node]
        shift, parent = tree.drafted, 0
        nodes: list[tuple[int, int, float]] = []
        for token, chance in zip(
            continuation[: MOST - len(path)], self._chances(length), strict=False
        ):
            score += chance
            nodes.append((parent + shift if nodes else node, token, score))
            parent = len(nodes)
        own = zip(tree.parents[1:], tree.tokens[1:], tree.scores[1:], strict=True)
        weights = [tree.weight(each) for each in range(1, len(tree))] + [None] * len(nodes)
        return TokenTree.build(tree.tokens[0], [*own, *nodes], weights=weights)

    def _continuations(self, path: Sequence[int]) -> list[tuple[int, list[int]]]:
        """Return what followed earlier where the text with `path` behind it ends, the best first.

        Each is (length of the match, continuation); their first tokens differ.
        """
        tokens = self._tokens
        last = [*tokens[-LONGEST:], *path][-LONGEST:]
        end = len(tokens) + len(path)
        found: dict[int, tuple[int, int]] = {}
        for key in KEYS:
            for place in reversed(self._places.get(tuple(last[-key:]), ())):
                if place >= min(end, len(tokens)):
                    continue  # the suffix itself is its own last occurrence
                first, length = tokens[place], _match(tokens, place, last)
                if length > found.get(first, (0, 0))[0]:
                    found[first] = length, place
            if found:
                break
        best = sorted(found.values(), reverse=True)[:BRANCHES]
        return [(length, tokens[place : place + MOST]) for length, place in best]

    def _chances(self, length: int) -> list[float]:
        """Return logs of the probabilities that each further token of a match is right.

        A match goes on for about as long as it is already, as far as anybody can tell: a wrong
        continuation costs the more the longer it is.
        """
        chances, left = [], 1.0
        for more in range(min(2 * length + 2, MOST)):
            place = _class_of(length + more)
            chance = min(self._hits[place] / self._tries[place], 0.99)
            left *= chance
            if left < _LEAST:
                break
            chances.append(log(max(chance, 1e-6)))
        return chances

    def _append(self, tokens: Sequence[int]) -> None:
        own, places = self._tokens, self._places
        for token in tokens:
            own.append(token)
            end = len(own)
            for key in KEYS:
                if end >= key:
                    kept = places[tuple(own[-key:])]
                    kept.append(end)
                    if len(kept) > _PLACES:
                        del kept[0]


def _class_of(length: int) -> int:
    """Return the index of the class of matches of this length."""
    return max(place for place, least in enumerate(_LENGTHS) if least <= max(length, SHORTEST))


def _match(tokens: Sequence[int], place: int, last: Sequence[int]) -> int:
    """Return how many tokens before `place` are those that `last` ends with."""
    length = 0
    while length < min(len(last), place) and tokens[place - 1 - length] == last[-1 - length]:
        length += 1
    return length
