"""Token trees: what drafters propose and the target verifies. A chain is a tree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import repeat

ROOT_PARENT = -1


@dataclass(frozen=True, slots=True)
class TokenTree:
    """Candidate continuations of the committed tokens, sharing prefixes.

    Node 0 is the root: the last committed token, which the target has not processed yet. All
    others are drafted, and ranked: the best score comes first. A child scores at most what its
    parent does and comes after it, so however many nodes are kept, they are a tree.

    Attributes:
        tokens: token of each node; siblings differ.
        parents: index of each node's parent; ROOT_PARENT for the root.
        scores: log of the estimated probability that the node is accepted (0 for the root).
        weights: log of what a draft model gave each node behind its parent; None for one that no
            model has drafted. None of all: the scores tell, for a single model drafted them.
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    scores: tuple[float, ...]
    weights: tuple[float | None, ...] | None = field(default=None, compare=False)

    @classmethod
    def root(cls, token: int) -> TokenTree:
        """The tree that drafts nothing."""
        return cls((token,), (ROOT_PARENT,), (0.0,))

    @classmethod
    def build(
        cls,
        token: int,
        nodes: Iterable[tuple[int, int, float]],
        most: int | None = None,
        weights: Iterable[float | None] | None = None,
    ) -> TokenTree:
        """A tree from drafted nodes (parent, token, score), each after its parent; 0 is the root.

        Nodes that repeat a sibling's token are merged and keep the better score, and a model's
        weight. The `most` nodes of the best scores stay; a node counts no better than its parent,
        so with it stay all of its ancestors. `weights` are those of the nodes, see the attribute.
        """
        tokens, parents, scores = [token], [ROOT_PARENT], [0.0]
        kept_weights: list[float | None] = [None]
        place = [0]
        seen: dict[tuple[int, int], int] = {}
        told = repeat(None) if weights is None else weights
        for (parent, child_token, score), weight in zip(nodes, told, strict=False):
            above = place[parent]
            bounded = min(score, scores[above])
            key = (above, child_token)
            if key in seen:
                node = seen[key]
                scores[node] = max(scores[node], bounded)
                if kept_weights[node] is None:
                    kept_weights[node] = weight
            else:
                node = seen[key] = len(tokens)
                tokens.append(child_token)
                parents.append(above)
                scores.append(bounded)
                kept_weights.append(weight)
            place.append(node)
        # Equal scores stay in order: parents before their children.
        ranked = sorted(range(len(tokens)), key=scores.__getitem__, reverse=True)
        known = None if weights is None else tuple(kept_weights)
        tree = cls(tuple(tokens), tuple(parents), tuple(scores), known).arranged(ranked)
        return tree if most is None else tree.best(most)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def drafted(self) -> int:
        """Number of drafted nodes."""
        return len(self.tokens) - 1

    @property
    def depths(self) -> tuple[int, ...]:
        """Distance of each node from the root."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(0 if parent == ROOT_PARENT else depths[parent] + 1)
        return tuple(depths)

    def children(self) -> list[dict[int, int]]:
        """Children of each node, as token -> node."""
        below: list[dict[int, int]] = [{} for _ in self.tokens]
        for node in range(1, len(self.tokens)):
            below[self.parents[node]][self.tokens[node]] = node
        return below

    def child(self, node: int, token: int | None = None) -> int | None:
        """The best child of a node, or the one that has the token."""
        for child in range(node + 1, len(self.tokens)):
            if self.parents[child] == node and token in (None, self.tokens[child]):
                return child
        return None

    def weight(self, node: int) -> float | None:
        """Log of what a draft model gave a drafted node behind its parent, if one drafted it."""
        if self.weights is not None:
            return self.weights[node]
        return self.scores[node] - self.scores[self.parents[node]]

    def path_to(self, node: int) -> list[int]:
        """The nodes from below the root down to `node`."""
        path: list[int] = []
        while node > 0:
            path.append(node)
            node = self.parents[node]
        return path[::-1]

    def likeliest_below(self, node: int) -> tuple[int, ...]:
        """The tokens below `node` when the best child is taken at every step."""
        tokens: list[int] = []
        try:
            while True:
                node = self.parents.index(node, node + 1)  # ranked: the first child is the best
                tokens.append(self.tokens[node])
        except ValueError:
            return tuple(tokens)

    def best(self, most: int) -> TokenTree:
        """The `most` best drafted nodes."""
        if most >= self.drafted:
            return self
        end = max(most, 0) + 1
        weights = self.weights and self.weights[:end]
        return TokenTree(self.tokens[:end], self.parents[:end], self.scores[:end], weights)

    def merge(self, other: TokenTree) -> TokenTree:
        """Both trees over their common root; a path in both keeps the better score."""
        if not (self.drafted and other.drafted):
            return self if self.drafted else other
        own = zip(self.parents[1:], self.tokens[1:], self.scores[1:], strict=True)
        shift = self.drafted
        theirs = (
            (parent + shift if parent else 0, token, score)
            for parent, token, score in zip(
                other.parents[1:], other.tokens[1:], other.scores[1:], strict=True
            )
        )
        weights = [tree.weight(node) for tree in (self, other) for node in range(1, len(tree))]
        return TokenTree.build(self.tokens[0], [*own, *theirs], weights=weights)

    def limited(self, depth: int) -> TokenTree:
        """Without the nodes deeper than `depth`."""
        if self.drafted <= depth:
            return self
        return self.arranged([node for node, own in enumerate(self.depths) if own <= depth])

    def arranged(self, nodes: Sequence[int]) -> TokenTree:
        """The given nodes in their order, in which parents come before their children."""
        new = {old: index for index, old in enumerate(nodes)}
        tokens, parents, scores, weights = self.tokens, self.parents, self.scores, self.weights
        return TokenTree(
            tuple([tokens[node] for node in nodes]),
            tuple([new.get(parents[node], ROOT_PARENT) for node in nodes]),
            tuple([scores[node] for node in nodes]),
            None if weights is None else tuple([weights[node] for node in nodes]),
        )


def follow(
    tokens: Sequence[int], parents: Sequence[int], path: Sequence[int], root: int
) -> list[int]:
    """The nodes that `path` visits from `root` downwards, as far as there are any.

    Args:
        tokens: token of each node.
        parents: parent of each node, which comes before it.
        path: tokens to look for.
        root: the node, or what stands for it among the parents, where the path begins.
    """
    found: list[int] = []
    wanted = iter(path)
    token = next(wanted, None)
    for node, parent in enumerate(parents):
        if parent == root and tokens[node] == token:
            found.append(node)
            root, token = node, next(wanted, None)
    return found


def chain(root: int, tokens: Sequence[int], scores: Sequence[float]) -> TokenTree:
    """The tree with one path: root -> tokens[0] -> tokens[1] ..."""
    nodes = zip(range(len(tokens)), tokens, scores, strict=True)
    return TokenTree.build(root, nodes)
