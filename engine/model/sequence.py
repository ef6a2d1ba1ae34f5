"""The state of one sequence: committed tokens, staged tree, and their keys and values.

Target and draft keep one alike. A forward stages nodes behind the committed tokens; committing a
path moves its keys to their place and forgets the rest; discarding forgets all staged nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.backend.segment import CHUNK, Ints, SegmentCache, Step, TreePaths

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
        if parents is None:
            parents = range(first - 1, first + count - 1)
        self._check(count, parents)
        for row, (token, parent) in enumerate(zip(tokens, parents, strict=True)):
            self._staged.append(token)
            self._parents.append(parent)
            self._depths.append(0 if parent == ROOT else self._depths[parent] + 1)
            self._is_chain = self._is_chain and parent == first + row - 1
        committed = len(self._tokens)
        positions = np.array(self._depths[first:], dtype=np.int32) + committed
        rows = range(count) if logit_rows is None else logit_rows
        return Step(
            tokens=np.array(tokens, dtype=np.int32),
            positions=positions,
            first_slot=committed + first,
            tree=None if self._is_chain else self._paths(first),
            logit_rows=np.array(sorted(rows), dtype=np.int32),
            taps=taps,
        )

    def _check(self, count: int, parents: Sequence[int]) -> None:
        first = len(self._staged)
        if count == 0:
            raise ValueError("a step needs at least one token")
        if len(self._tokens) + first + count > self._slots:
            raise ValueError("more tokens are staged than the state has room for")
        for row, parent in enumerate(parents):
            if not ROOT <= parent < first + row:
                raise ValueError("a node's parent must be staged before it")

    def _paths(self, first: int) -> TreePaths:
        committed, count = len(self._tokens), len(self._staged) - first
        base = committed // CHUNK * CHUNK
        width = (committed + max(self._depths[first:])) // CHUNK * CHUNK + CHUNK - base
        row_path = np.full(count, -1, dtype=np.int32)
        slots: list[Ints] = []
        for leaf in range(len(self._staged) - 1, first - 1, -1):
            if row_path[leaf - first] >= 0:
                continue
            path = np.zeros(width, dtype=np.int32)
            path[: committed - base] = np.arange(base, committed)
            node = leaf
            while node != ROOT:
                path[committed + self._depths[node] - base] = committed + node
                if node >= first and row_path[node - first] < 0:
                    row_path[node - first] = len(slots)
                node = self._parents[node]
            slots.append(path)
        return TreePaths(base=base, slots=np.stack(slots), row_path=row_path)

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
