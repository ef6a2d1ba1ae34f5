"""The state of one sequence: committed tokens, staged tree, and their keys and values.

Target and draft keep one alike. A forward stages nodes behind the committed tokens; committing a
path moves its keys to their place and forgets the rest; discarding forgets all staged nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.backend.segment import CHUNK, SegmentCache, Step, TreePaths

ROOT = -1
"""Parent of a node that follows the committed tokens directly."""


class SequenceState:
    """Tokens and caches of one sequence; slot i holds committed token i, staged nodes come after.

    Args:
        caches: one per segment, each with at least `context + tree` slots.
        context: most tokens that may be committed.
        tree: most nodes that may be staged beyond them.
    """

    def __init__(self, caches: Sequence[SegmentCache], context: int, tree: int) -> None:
        self.caches = tuple(caches)
        self.context = context
        self._slots = context + tree
        self._tokens: list[int] = []
        self._staged: list[int] = []
        self._parents: list[int] = []
        self._depths: list[int] = []
        self._is_chain = True

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def tokens(self) -> Sequence[int]:
        """Committed tokens."""
        return self._tokens

    @property
    def staged(self) -> Sequence[int]:
        """Tokens of the staged nodes, in staging order."""
        return self._staged

    @property
    def parents(self) -> Sequence[int]:
        """Parents of the staged nodes, as indices of staged nodes or ROOT."""
        return self._parents

    @property
    def nbytes(self) -> int:
        """Bytes reserved for keys and values."""
        return sum(cache.nbytes for cache in self.caches)

    def stage(
        self,
        tokens: Sequence[int],
        parents: Sequence[int] | None = None,
        *,
        logit_rows: Sequence[int] | None = None,
        taps: tuple[int, ...] = (),
    ) -> Step:
        """Add nodes behind what is staged and return the forward that computes them.

        Args:
            tokens: n token ids.
            parents: for each, the index of an earlier staged node or ROOT; None is a chain on the
                last staged node.
            logit_rows: rows (0..n-1) whose logits are wanted; None is all.
            taps: blocks whose outputs are wanted.

        Raises:
            ValueError: an empty step, a parent that is not staged yet, or no slots left.
        """
        first, count = len(self._staged), len(tokens)
        self.adopt(tokens, range(first - 1, first + count - 1) if parents is None else parents)
        committed = len(self._tokens)
        if self._is_chain:
            start = committed + first
            positions = np.arange(start, start + count, dtype=np.int32)
        else:
            positions = np.array(self._depths[first:], dtype=np.int32) + np.int32(committed)
        if logit_rows is None:
            wanted = np.arange(count, dtype=np.int32)
        else:
            wanted = np.array(sorted(logit_rows), dtype=np.int32)
        return Step(
            tokens=np.array(tokens, dtype=np.int32),
            positions=positions,
            first_slot=committed + first,
            tree=None if self._is_chain else self._paths(first),
            logit_rows=wanted,
            taps=taps,
        )

    def adopt(self, tokens: Sequence[int], parents: Sequence[int]) -> None:
        """Add nodes behind what is staged that the backend computes, or has computed, by itself.

        Args:
            tokens: n token ids.
            parents: for each, the index of an earlier staged node or ROOT.

        Raises:
            ValueError: no nodes, a parent that is not staged yet, or no slots left.
        """
        first, depths = len(self._staged), self._depths
        if not tokens:
            raise ValueError("a step needs at least one token")
        if len(self._tokens) + first + len(tokens) > self._slots:
            raise ValueError("more tokens are staged than the state has room for")
        if self._is_chain and parents == range(first - 1, first + len(tokens) - 1):
            depths += range(first, first + len(tokens))
        else:
            for node, parent in enumerate(parents, first):
                if not ROOT <= parent < node:
                    del depths[first:]
                    raise ValueError("a node's parent must be staged before it")
                depths.append(0 if parent == ROOT else depths[parent] + 1)
            self._is_chain = depths == list(range(len(depths)))
        self._staged += tokens
        self._parents += parents

    def _paths(self, first: int) -> TreePaths:
        """Where the new nodes, from the `first` staged one on, find the keys of their paths."""
        committed, depths = len(self._tokens), self._depths
        base = committed // CHUNK * CHUNK
        width = (committed + max(depths[first:])) // CHUNK * CHUNK + CHUNK - base
        paths: list[list[int]] = []  # slots from the committed tokens to each node
        for slot, parent in enumerate(self._parents, committed):
            paths.append([slot] if parent == ROOT else [*paths[parent], slot])
        leaves: list[int] = []
        leaf_of = [-1] * len(paths)
        for leaf in range(len(paths) - 1, first - 1, -1):
            if leaf_of[leaf] < 0:
                for slot in paths[leaf]:
                    if leaf_of[slot - committed] < 0:
                        leaf_of[slot - committed] = len(leaves)
                leaves.append(leaf)
        slots = np.zeros((len(leaves), width), dtype=np.int32)
        own = committed - base
        slots[:, :own] = np.arange(base, committed)
        for row, leaf in zip(slots, leaves, strict=True):
            row[own : own + depths[leaf] + 1] = paths[leaf]
        return TreePaths(base, slots, np.array(leaf_of[first:], dtype=np.int32))

    def commit(self, path: Sequence[int]) -> None:
        """Keep the staged nodes `path` (from a child of ROOT downwards) and forget the others.

        Raises:
            ValueError: the nodes are no path, or the context is full.
        """
        parent = ROOT
        for node in path:
            if not 0 <= node < len(self._staged) or self._parents[node] != parent:
                raise ValueError("only a path of staged nodes can be committed")
            parent = node
        start = len(self._tokens)
        if start + len(path) > self.context:
            raise ValueError("the context is full")
        in_place = 0
        while in_place < len(path) and path[in_place] == in_place:
            in_place += 1
        moved = [start + node for node in path[in_place:]]
        for cache in self.caches:
            cache.move(moved, start + in_place)
        self._tokens.extend(self._staged[node] for node in path)
        self.discard()

    def discard(self) -> None:
        """Forget the staged nodes."""
        self._staged.clear()
        self._parents.clear()
        self._depths.clear()
        self._is_chain = True

    def reusable(self, prefix_length: int) -> int:
        """How many of the first `prefix_length` committed tokens the state can go back to."""
        return min(prefix_length, len(self._tokens))

    def common_prefix(self, tokens: Sequence[int]) -> int:
        """Length of the longest common prefix of the committed tokens and `tokens`."""
        limit = min(len(tokens), len(self._tokens))
        if self._tokens[:limit] == list(tokens[:limit]):
            return limit
        return next(i for i in range(limit) if tokens[i] != self._tokens[i])

    def copy_prefix(self, other: SequenceState, length: int) -> None:
        """Begin with the first `length` committed tokens of another state of the same model."""
        self.discard()
        self._tokens = list(other.tokens[:length])
        for cache, source in zip(self.caches, other.caches, strict=True):
            cache.copy_prefix(source, length)

    def crop(self, length: int) -> None:
        """Go back to the first `length` committed tokens and forget the staged nodes."""
        self.discard()
        del self._tokens[length:]
