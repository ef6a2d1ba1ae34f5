"""Token trees: what drafters propose and the target verifies. A chain is a tree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

ROOT_PARENT = -1


@dataclass(frozen=True, slots=True)
class TokenTree:
    """Candidate continuations of the committed tokens, sharing prefixes.

    Node 0 is the root: the last committed token, which the target has not processed yet. All
    others are drafted. Parents come before children, so the tree is closed under parents.

    Attributes:
        tokens: token of each node; siblings differ.
        parents: index of each node's parent; ROOT_PARENT for the root.
        scores: log of the estimated probability that the node is accepted (0 for the root); a
            child's is at most its parent's.
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    scores: tuple[float, ...]

    @classmethod
    def root(cls, token: int) -> TokenTree:
        """The tree that drafts nothing."""
        return cls((token,), (ROOT_PARENT,), (0.0,))

    @classmethod
    def build(
        cls, token: int, nodes: Iterable[tuple[int, int, float]], most: int | None = None
    ) -> TokenTree:
        """A tree from drafted nodes (parent, token, score), each after its parent; 0 is the root.

        Nodes that repeat a sibling's token are merged and keep the better score. The `most` nodes
        of the best scores stay; a node counts no better than its parent, so with it stay all of
        its ancestors. They are laid out depth first, best child first: the likeliest path is
        contiguous.
        """
        tokens, parents, scores = [token], [ROOT_PARENT], [0.0]
        place = [0]
        seen: dict[tuple[int, int], int] = {}
        for parent, child_token, score in nodes:
            above = place[parent]
            bounded = min(score, scores[above])
            key = (above, child_token)
            if key in seen:
                node = seen[key]
                scores[node] = max(scores[node], bounded)
            else:
                node = seen[key] = len(tokens)
                tokens.append(child_token)
                parents.append(above)
                scores.append(bounded)
            place.append(node)
        return cls(tuple(tokens), tuple(parents), tuple(scores)).best(
            len(tokens) - 1 if most is None else most
        )

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
        """For each node, its children as token -> node."""
        below: list[dict[int, int]] = [{} for _ in self.tokens]
        for node in range(1, len(self.tokens)):
            below[self.parents[node]][self.tokens[node]] = node
        return below

    def ranked(self) -> list[int]:
        """Drafted nodes, best score first, parents before their children."""
        return sorted(range(1, len(self.tokens)), key=lambda node: (-self.scores[node], node))

    def best(self, most: int) -> TokenTree:
        """The `most` best drafted nodes, depth first with the best child first."""
        kept = self.ranked()[: max(most, 0)]
        below: dict[int, list[int]] = {}
        for node in reversed(kept):
            below.setdefault(self.parents[node], []).append(node)
        order, stack = [], [0]
        while stack:
            node = stack.pop()
            order.append(node)
            stack.extend(below.get(node, ()))
        new = {old: index for index, old in enumerate(order)}
        return TokenTree(
            tuple(self.tokens[node] for node in order),
            tuple(new.get(self.parents[node], ROOT_PARENT) for node in order),
            tuple(self.scores[node] for node in order),
        )

    def merge(self, other: TokenTree) -> TokenTree:
        """Both trees over their common root; a path in both keeps the better score."""
        own = zip(self.parents[1:], self.tokens[1:], self.scores[1:], strict=True)
        shift = len(self.tokens) - 1
        theirs = (
            (parent + shift if parent else 0, token, score)
            for parent, token, score in zip(
                other.parents[1:], other.tokens[1:], other.scores[1:], strict=True
            )
        )
        return TokenTree.build(self.tokens[0], [*own, *theirs])

    def limited(self, depth: int) -> TokenTree:
        """Without the nodes deeper than `depth`."""
        depths = self.depths
        if not depths or max(depths) <= depth:
            return self
        shallow = [node for node in range(len(self.tokens)) if depths[node] <= depth]
        new = {old: index for index, old in enumerate(shallow)}
        return TokenTree(
            tuple(self.tokens[node] for node in shallow),
            tuple(new.get(self.parents[node], ROOT_PARENT) for node in shallow),
            tuple(self.scores[node] for node in shallow),
        )


def chain(root: int, tokens: Sequence[int], scores: Sequence[float]) -> TokenTree:
    """The tree with one path: root -> tokens[0] -> tokens[1] ..."""
    nodes = zip(range(len(tokens)), tokens, scores, strict=True)
    return TokenTree.build(root, nodes)
