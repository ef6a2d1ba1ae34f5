"""A step: one forward over new tokens of a sequence, possibly a tree; it depends on no device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from engine.backend.native.pool import CancelFlag

CHUNK = 64
"""Attention walks the keys by position in fixed chunks of this many, always from position 0."""

Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class TreePaths:
    """Slots of the keys of a tree's rows, for the positions from `base` on.

    Rows of the same root-to-leaf path share an entry.

    Attributes:
        base: first position covered, a multiple of CHUNK; below it slot == position for every row.
        slots: int32 [paths, width]; the slot of the key at position base + j, 0 past the leaf.
        row_path: int32 [n]; the path that each row lies on.
    """

    base: int
    slots: Ints
    row_path: Ints


@dataclass(frozen=True)
class Step:
    """One forward over n new tokens, which are staged behind the committed tokens.

    Slot i of the caches holds committed token i, the staged nodes come after in their order.

    Attributes:
        tokens: n token ids.
        parents: of all staged nodes, the rows last: an earlier staged node, or -1 for one that
            follows the committed tokens. Live: valid until the sequence goes on.
        committed: number of committed tokens.
        logit_rows: the rows whose logits are wanted, ascending; None is all.
        taps: blocks whose output hidden states are wanted.
        feeds: whether the last segment's hidden states are wanted beside its logits.
        cancel: gives the forward up once it is set, where the device looks at it.
    """

    tokens: Sequence[int]
    parents: Sequence[int]
    committed: int
    logit_rows: Sequence[int] | None = None
    taps: tuple[int, ...] = ()
    feeds: bool = False
    cancel: CancelFlag | None = None

    @property
    def first(self) -> int:
        """The staged node that row 0 is."""
        return len(self.parents) - len(self.tokens)

    @property
    def first_slot(self) -> int:
        """Slot of row 0's keys and values; the n rows take first_slot..first_slot+n-1."""
        return self.committed + self.first

    @cached_property
    def positions(self) -> Ints:
        """int32 [n]; a row sees the keys of positions 0..own along its own path."""
        return np.array(self._depths[self.first :], dtype=np.int32) + np.int32(self.committed)

    @cached_property
    def tree(self) -> TreePaths | None:
        """Paths of the rows' keys; None when slot == position for all they can see (a chain)."""
        committed, first, depths = self.committed, self.first, self._depths
        if depths == list(range(len(depths))):
            return None
        base = committed // CHUNK * CHUNK
        width = (committed + max(depths[first:])) // CHUNK * CHUNK + CHUNK - base
        paths: list[list[int]] = []  # nodes from the committed tokens to each node
        for node, parent in enumerate(self.parents):
            paths.append([node] if parent < 0 else [*paths[parent], node])
        leaves: list[int] = []
        leaf_of = [-1] * len(paths)
        for leaf in range(len(paths) - 1, first - 1, -1):
            if leaf_of[leaf] < 0:
                for node in paths[leaf]:
                    leaf_of[node] = len(leaves) if leaf_of[node] < 0 else leaf_of[node]
                leaves.append(leaf)
        slots = np.zeros((len(leaves), width), dtype=np.int32)
        own = committed - base
        slots[:, :own] = np.arange(base, committed)
        for row, leaf in zip(slots, leaves, strict=True):
            row[own : own + depths[leaf] + 1] = np.array(paths[leaf]) + committed
        return TreePaths(base, slots, np.array(leaf_of[first:], dtype=np.int32))

    @cached_property
    def _depths(self) -> list[int]:
        """Depths of all staged nodes; 0 follows the committed tokens."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(0 if parent < 0 else depths[parent] + 1)
        return depths
