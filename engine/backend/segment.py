"""What a backend provides: segments of decoder blocks, and one cache per sequence and segment.

A `Step` is one forward over n new tokens that may form a tree. Everything in it is plain numpy, so
that the decoder above knows no device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.model.config import ModelConfig

CHUNK = 64
"""Attention walks the keys by position in fixed chunks of this many, always from position 0."""

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]


class Weights(Protocol):
    """Where a backend reads tensors from, by Hugging Face name."""

    def float32(self, name: str) -> Floats:
        """The tensor as a C-contiguous fp32 array."""
        ...


@dataclass(frozen=True, slots=True)
class TreePaths:
    """Where the keys of a tree's rows lie, for the positions from `base` on.

    Rows of the same root-to-leaf path share an entry.

    Attributes:
        base: first position covered, a multiple of CHUNK; below it slot == position for every row.
        slots: int32 [paths, width]; the slot of the key at position base + j, 0 past the leaf.
        row_path: int32 [n]; the path that each row lies on.
    """

    base: int
    slots: Ints
    row_path: Ints


@dataclass(frozen=True, slots=True)
class Step:
    """One forward over n new tokens of one sequence.

    Attributes:
        tokens: int32 [n].
        positions: int32 [n]; a row sees the keys of positions 0..own along its own path.
        first_slot: the rows' keys and values go to slots first_slot..first_slot+n-1.
        tree: None when slot == position for every key a row can see (a chain).
        logit_rows: int32 [m], ascending; the rows whose logits are wanted.
        taps: blocks whose output hidden states are wanted.
    """

    tokens: Ints
    positions: Ints
    first_slot: int
    tree: TreePaths | None
    logit_rows: Ints
    taps: tuple[int, ...] = ()


@dataclass(slots=True)
class SegmentOutput:
    """What a segment hands on. Arrays are valid until the segment's next forward.

    Attributes:
        hidden: fp32 [n, d]; after the final norm where the segment ends the model.
        logits: fp32 [m, vocab] of the asked rows; None before the last segment.
        taps: block index -> fp32 [n, d].
    """

    hidden: Floats
    logits: Floats | None
    taps: dict[int, Floats]


class SegmentCache(Protocol):
    """Keys and values of one sequence in one segment, at addresses that never move."""

    @property
    def nbytes(self) -> int:
        """Bytes reserved; pages are touched only as the sequence grows."""
        ...

    def copy_prefix(self, other: SegmentCache, slots: int) -> None:
        """Take over the first `slots` slots of another cache of the same segment."""
        ...

    def move(self, sources: Sequence[int], target: int) -> None:
        """Copy the slots `sources` (ascending, each >= its destination) to target, target+1, ..."""
        ...


class Segment(Protocol):
    """A contiguous run of decoder blocks on one device."""

    @property
    def blocks(self) -> range:
        """The decoder blocks it computes."""
        ...

    @property
    def device(self) -> str:
        """Device name for people, such as "CPU"."""
        ...

    @property
    def signature(self) -> str:
        """Weight format, cache type, device class: what the arithmetic depends on."""
        ...

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights held."""
        ...

    def new_cache(self, slots: int) -> SegmentCache:
        """An empty cache with room for `slots` tokens."""
        ...

    def run(self, step: Step, cache: SegmentCache, hidden: Floats | None) -> SegmentOutput:
        """One forward. `hidden` is the previous segment's output, None for the first segment."""
        ...


class Backend(Protocol):
    """Compiles segments for one device."""

    def compile(
        self, config: ModelConfig, weights: Weights, blocks: range, *, embed: bool, head: bool
    ) -> Segment:
        """Build the segment `blocks`, with the embedding before and the head after it if asked."""
        ...
