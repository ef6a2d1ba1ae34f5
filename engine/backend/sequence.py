"""The state of one sequence: committed tokens, staged tree, their keys, values and features.

Target and draft keep one alike. A forward stages nodes behind the committed tokens; committing a
path moves its keys to their place and forgets the rest, or what does not lie behind it; discarding
forgets all staged nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.backend.ledger import Account, Purpose, Reach
from engine.backend.native.memory import reserve
from engine.backend.native.pool import CancelFlag
from engine.backend.segment import SegmentCache
from engine.backend.step import Step
from engine.model.weights.readable import Floats

_LARGEST = 65504.0
NUMBER = 2
"""Bytes of a stored number."""


class FeatureStore:
    """Hidden states of one sequence's tokens, which a feature head drafts from.

    Slot i belongs to token i, staged nodes come after. The store lies on the host beside the keys
    and values of its sequence, is committed and cropped with them, and so serves a head after a
    reused prefix as if the tokens had just been processed. Numbers are fp16; what is beyond its
    range is cut to it.

    Args:
        slots: tokens there is room for; memory is touched as far as it is used.
        width: numbers of a token's features.
        account: where it is entered.
    """

    def __init__(self, slots: int, width: int, account: Account) -> None:
        reach = Reach(lambda used: used * width * NUMBER)
        self._reach = reach
        self._rows: NDArray[np.float16] = reserve(
            account, (slots, width), np.float16, reach, purpose=Purpose.FEATURES
        )

    @property
    def nbytes(self) -> int:
        """Bytes reserved."""
        return self._rows.nbytes

    def put(self, first: int, rows: Sequence[Floats]) -> None:
        """Features of the slots from `first` on: one fp32 [n, ...] per tap, side by side."""
        count, column = len(rows[0]), 0
        self._reach.extend(first + count)
        for tap in rows:
            place = self._rows[first : first + count, column : column + tap.shape[1]]
            np.clip(tap, -_LARGEST, _LARGEST, out=place, casting="same_kind")
            column += tap.shape[1]

    def rows(self, start: int, stop: int) -> Floats:
        """Features of slots start..stop-1, a copy: fp32 [stop - start, width]."""
        return self._rows[start:stop].astype(np.float32)

    def move(self, sources: Sequence[int], target: int) -> None:
        """Copy the slots `sources` (ascending, each >= its destination) to target, target+1, ..."""
        self._rows[target : target + len(sources)] = self._rows[list(sources)]

    def copy_prefix(self, other: FeatureStore, slots: int) -> None:
        """Take over the first `slots` slots of another store."""
        self._reach.extend(slots)
        self._rows[:slots] = other._rows[:slots]


ROOT = -1
"""Parent of a node that follows the committed tokens directly."""


class SequenceState:
    """Tokens and caches of one sequence; slot i holds committed token i, staged nodes come after.

    Args:
        caches: one per segment, each with at least `context + tree` slots.
        context: most tokens that may be committed.
        tree: most nodes that may be staged beyond them.
        features: of the tokens, with as many slots as the caches, where a head drafts from them.
    """

    def __init__(
        self,
        caches: Sequence[SegmentCache],
        context: int,
        tree: int,
        features: FeatureStore | None = None,
    ) -> None:
        self.caches = tuple(caches)
        self.features = features
        self.context = context
        self._slots = context + tree
        self._most_staged = min((c.most_staged for c in caches if c.most_staged), default=None)
        self._tokens: list[int] = []
        self._staged: list[int] = []
        self._parents: list[int] = []

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def recurrent(self) -> bool:
        """Tell whether it takes snapshots to go back."""
        return self._most_staged is not None

    @property
    def slots(self) -> int:
        """Tokens that the caches hold at most by now, staged ones included."""
        return self.slots_behind(len(self._tokens))

    def slots_behind(self, length: int) -> int:
        """Return the tokens that the caches hold at most once `length` of them are committed."""
        if self._most_staged is None:
            return self._slots
        return min(self._slots, length + self._most_staged)

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
        """Bytes reserved for keys, values and features."""
        features = self.features.nbytes if self.features else 0
        return sum(cache.nbytes for cache in self.caches) + features

    def stage(
        self,
        tokens: Sequence[int],
        parents: Sequence[int] | None = None,
        *,
        logit_rows: Sequence[int] | None = None,
        taps: tuple[int, ...] = (),
        feeds: bool = False,
        cancel: CancelFlag | None = None,
    ) -> Step:
        """Add nodes behind what is staged and return the forward that computes them.

        Args:
            tokens: n token ids.
            parents: for each, the index of an earlier staged node or ROOT; None is a chain on the
                last staged node.
            logit_rows: rows (0..n-1) whose logits are wanted; None is all.
            taps: blocks whose outputs are wanted.
            feeds: whether the final hidden states are wanted beside the logits.
            cancel: gives the forward up once it is set.

        Raises:
            ValueError: an empty step, a parent that is not staged yet, or no slots left.
        """
        if parents is None:
            last = len(self._staged) - 1
            self._add(tokens, range(last, last + len(tokens)))
        else:
            self.adopt(tokens, parents)
        wanted = None if logit_rows is None else sorted(logit_rows)
        return Step(tokens, self._parents, len(self._tokens), wanted, taps, feeds, cancel)

    def adopt(self, tokens: Sequence[int], parents: Sequence[int]) -> None:
        """Add nodes behind what is staged; their keys and values are the caller's business.

        Args:
            tokens: n token ids.
            parents: for each, the index of an earlier staged node or ROOT.

        Raises:
            ValueError: no nodes, a parent that is not staged yet, or no slots left.
        """
        for node, parent in enumerate(parents, len(self._staged)):
            if not ROOT <= parent < node:
                raise ValueError("a node's parent must be staged before it")
        self._add(tokens, parents)

    def _add(self, tokens: Sequence[int], parents: Sequence[int]) -> None:
        if not tokens:
            raise ValueError("a step needs at least one token")
        if len(self._tokens) + len(self._staged) + len(tokens) > self._slots:
            raise ValueError("more tokens are staged than the state has room for")
        self._staged += tokens
        self._parents += parents

    def commit(
        self,
        path: Sequence[int],
        *,
        in_place: SegmentCache | None = None,
        features_in_place: bool = False,
    ) -> None:
        """Keep the staged nodes `path` (from a child of ROOT downwards) and forget the others.

        Args:
            path: indices of staged nodes.
            in_place: a cache whose keys a backend has put in place.
            features_in_place: whether the path's features are where they belong, too.

        Raises:
            ValueError: the nodes are no path, or the context is full.
        """
        self._check_path(path)
        self._put_in_place(path, in_place=in_place, features_in_place=features_in_place)
        self._tokens += [self._staged[node] for node in path]
        self.discard()

    def settle(self, path: Sequence[int], keep: Sequence[int]) -> None:
        """Commit the staged nodes `path` as `commit` does, but keep others behind them staged.

        Those are renumbered from 0 in their order; keys and values move only where they do not
        lie in place already.

        Args:
            path: indices of staged nodes, from a child of ROOT downwards; may be empty.
            keep: indices of staged nodes, ascending, all staged after the path; each one's parent
                is the path's last node (ROOT where there is none) or kept as well.

        Raises:
            ValueError: the nodes are no path or cannot stay behind it, or the context is full.
        """
        self._check_path(path)
        above = path[-1] if path else ROOT
        renumbered, before = {above: ROOT}, above
        for place, node in enumerate(keep):
            if not before < node < len(self._staged) or self._parents[node] not in renumbered:
                raise ValueError("only nodes below the path, in their order, can stay staged")
            renumbered[node], before = place, node
        self._put_in_place([*path, *keep])
        self._tokens += [self._staged[node] for node in path]
        self._parents = [renumbered[self._parents[node]] for node in keep]
        self._staged = [self._staged[node] for node in keep]

    def _check_path(self, path: Sequence[int]) -> None:
        above = ROOT
        if len(self._tokens) + len(path) > self.context:
            raise ValueError("the context is full")
        for node in path:
            if not 0 <= node < len(self._staged) or self._parents[node] != above:
                raise ValueError("only a path of staged nodes can be committed")
            above = node

    def _put_in_place(
        self,
        nodes: Sequence[int],
        *,
        in_place: SegmentCache | None = None,
        features_in_place: bool = False,
    ) -> None:
        """Move staged nodes (ascending) right behind the committed tokens."""
        start, still = len(self._tokens), 0
        while still < len(nodes) and nodes[still] == still:
            still += 1
        if still == len(nodes):
            return
        moved = [start + node for node in nodes[still:]]
        for cache in self.caches:
            if cache is not in_place:
                cache.move(moved, start + still)
        if self.features is not None and not features_in_place:
            self.features.move(moved, start + still)

    def unstage(self, count: int) -> None:
        """Forget the last `count` staged nodes.

        Raises:
            ValueError: so many are not staged.
        """
        if not 0 <= count <= len(self._staged):
            raise ValueError("so many nodes are not staged")
        left = len(self._staged) - count
        del self._staged[left:], self._parents[left:]

    def extend(self, tokens: Sequence[int]) -> None:
        """Committed tokens whose keys a backend has put in place; staged nodes are forgotten.

        Raises:
            ValueError: the context is full.
        """
        if len(self._tokens) + len(tokens) > self.context:
            raise ValueError("the context is full")
        self._tokens += tokens
        self.discard()

    def discard(self) -> None:
        """Forget the staged nodes."""
        self._staged.clear()
        self._parents.clear()

    def reusable(self, prefix_length: int) -> int:
        """Return how many of the first `prefix_length` committed tokens it can go back to."""
        length = min(prefix_length, len(self._tokens))
        while (nearest := min((c.reusable(length) for c in self.caches), default=length)) < length:
            length = nearest
        return length

    @property
    def snapshot_bytes(self) -> int:
        """Bytes of `nbytes` that snapshots take."""
        return sum(cache.snapshot_bytes for cache in self.caches)

    def snapshot(self, budget: int) -> None:
        """Keep what it takes to come back to the committed tokens; slots need nothing.

        Args:
            budget: most bytes of snapshots in each cache; one is kept in any case.

        Raises:
            OutOfMemory: there is no memory for it.
        """
        for cache in self.caches:
            cache.snapshot(len(self._tokens), budget)

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
        if self.features is not None and other.features is not None:
            self.features.copy_prefix(other.features, length)

    def crop(self, length: int) -> None:
        """Go back to the first `length` committed tokens, or to the nearest ones before them.

        Staged nodes are forgotten.
        """
        self.discard()
        length = self.reusable(length)
        for cache in self.caches:
            cache.crop(length)
        del self._tokens[length:]
