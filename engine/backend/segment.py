"""Interfaces of a backend: segments of decoder blocks, one cache per sequence and segment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from engine.backend.native.pool import CancelFlag
from engine.backend.native.sampling import NativeDraws
from engine.backend.round import (
    Drafted,
    DraftRequest,
    Expanded,
    Ranking,
    Verified,
    VerifyRequest,
)
from engine.backend.step import Step
from engine.model.config import ModelConfig
from engine.model.weights.readable import Floats, Weights


@dataclass(frozen=True, slots=True)
class Share:
    """A run of the target's blocks on one device; the first share embeds, the last has the head.

    An empty run with `embeds` is the embedding alone, with `heads` the head alone.
    """

    device: str
    blocks: range
    embeds: bool = False
    heads: bool = False


@dataclass(slots=True)
class SegmentOutput:
    """Output of a segment: C-contiguous arrays on the host, valid until its next forward.

    Attributes:
        hidden: fp32 [n, d]; after the final norm where the segment ends the model.
        logits: fp32 [m, vocab] of the asked rows; None before the last segment.
        taps: block index -> fp32 [n, d].
    """

    hidden: Floats
    logits: Floats | None
    taps: dict[int, Floats]


class SegmentCache(ABC):
    """Keys, values and states of one sequence in one segment, at addresses that never move.

    Here its slots stand by themselves: it can go back to any, and need not be told. One with states
    is a `StateCache`.
    """

    @property
    def most_staged(self) -> int | None:
        """Nodes that may be staged at a time; None: as many as there are slots."""
        return None

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes reserved; pages are touched only as the sequence grows."""

    def reusable(self, slots: int) -> int:
        """Return how many of the first `slots` slots it can go back to.

        A state cannot go back behind what went into it, but to a snapshot.
        """
        return slots

    def crop(self, slots: int) -> None:  # noqa: B027 (what lies behind is written over)
        """Go back to the first `slots` slots, a number that `reusable` returns."""

    @property
    def snapshot_bytes(self) -> int:
        """Bytes of `nbytes` that snapshots take."""
        return 0

    def snapshot(self, slots: int, budget: int) -> None:  # noqa: B027 (the slots are all there is)
        """Keep what it takes to come back to this many slots, all that are committed.

        `budget`: most bytes of all snapshots.
        """

    @abstractmethod
    def copy_prefix(self, other: SegmentCache, slots: int) -> None:
        """Take over the first `slots` slots of another cache of the same segment."""

    @abstractmethod
    def move(self, sources: Sequence[int], target: int) -> None:
        """Copy the slots `sources` to target, target+1, ...

        They ascend, and each is at or behind its destination; or all lie before the target.
        """


CacheT = TypeVar("CacheT")


def own_cache(cache: SegmentCache, kind: type[CacheT]) -> CacheT:
    """Return the cache as the backend's own kind.

    Raises:
        TypeError: it belongs to another backend.
    """
    if not isinstance(cache, kind):
        raise TypeError("the cache belongs to another backend")
    return cache


def keep_path(cache: SegmentCache, committed: int, path: Sequence[int]) -> None:
    """Bring the keys of a path's nodes to their places behind the committed tokens."""
    still = next((place for place, node in enumerate(path) if node != place), len(path))
    if moved := [committed + node for node in path[still:]]:
        cache.move(moved, committed + still)


class Segment(ABC):
    """A contiguous run of decoder blocks on one device, or a feature head, which is one segment.

    Backends implement `run`. `verify` is built on it; `draft` and `expand` are for whole models on
    backends that rank candidates where they compute them, which `drafts` and `expands` tell.

    Attributes:
        blocks: the decoder blocks it computes.
    """

    def __init__(self, blocks: range) -> None:
        self.blocks = blocks

    @property
    def drafts(self) -> bool:
        """Tell whether `draft` is available."""
        return False

    @property
    def expands(self) -> bool:
        """Tell whether `expand` is available."""
        return False

    @property
    @abstractmethod
    def signature(self) -> str:
        """Weight format, cache type, device class: what the arithmetic depends on."""

    @property
    @abstractmethod
    def weight_bytes(self) -> int:
        """Bytes of weights held."""

    @property
    def mapped_bytes(self) -> int:
        """Bytes of weights mapped from files, whose memory the system may reclaim and reload."""
        return 0

    @abstractmethod
    def new_cache(self, slots: int) -> SegmentCache:
        """An empty cache with room for `slots` tokens."""

    @abstractmethod
    def run(self, step: Step, cache: SegmentCache, hidden: Floats | None) -> SegmentOutput:
        """One forward.

        `hidden` is the previous segment's output, None for the first segment. A feature head gets
        the target's features instead, [n, fusion.width], beside the tokens; its own output is what
        it takes for features when it drafts on.
        """

    def draft(
        self,
        cache: SegmentCache,
        committed: int,
        slots: int,
        request: DraftRequest,
        cancel: CancelFlag | None = None,
    ) -> Drafted | None:
        """Process committed tokens, then draft a tree behind them, in one call.

        Args:
            cache: of the sequence.
            committed: tokens of it whose keys the cache holds.
            slots: of the cache, that may be used.
            request: the tokens behind those, and how to draft.
            cancel: looked at on the way.

        Returns:
            The tree; None where `cancel` was set before it was done.
        """
        raise NotImplementedError("this segment cannot draft in one call")

    def expand(
        self,
        step: Step,
        cache: SegmentCache,
        ranking: Ranking,
        width: int,
        features: Floats | None = None,
    ) -> Expanded | None:
        """One forward, and the likeliest tokens behind each of the rows whose logits are wanted.

        Args:
            step: of any nodes of a tree, at different depths too.
            cache: of the sequence.
            ranking: how candidates rank, each at the position behind its own row.
            width: most candidates of a row.
            features: what a head takes, see `run`.

        Returns:
            `width` candidates per wanted row, fewer where there are no more numbers; None where
            the step's flag was set before it was done.

        Raises:
            ValueError: an impossible width or rows that do not ascend.
        """
        raise NotImplementedError("this segment cannot expand in one call")

    def verify(
        self,
        cache: SegmentCache,
        committed: int,
        draws: NativeDraws,
        request: VerifyRequest,
        *,
        hidden: Floats | None = None,
        taps: tuple[int, ...] | None = None,
    ) -> tuple[Verified, SegmentOutput | None]:
        """A forward over the tree, the draws down it; the path's keys are in place afterwards.

        Args:
            cache: of the sequence.
            committed: tokens of it whose keys the cache holds.
            draws: the target's.
            request: the tree, and how far to draw.
            hidden: the previous segment's output over the nodes; None for a whole model.
            taps: of its blocks, those whose outputs are wanted beside the final hidden states;
                None: nothing is wanted.

        Returns:
            The outcome, and what is wanted of all nodes, without logits.

        Raises:
            InvalidLogits: the logits at a node of the path are not finite.
            ValueError: the segment has no head.
        """
        step = Step(request.nodes, request.parents, committed, taps=taps or (), feeds=taps == ())
        output = self.run(step, cache, hidden)
        if output.logits is None:
            raise ValueError("the last segment has no head")
        verified = draws.verify(request, output.logits)
        keep_path(cache, committed, verified.path)
        return verified, None if taps is None else replace(output, logits=None)


def check_head(config: ModelConfig, blocks: range, *, embed: bool, head: bool) -> None:
    """Raise `ValueError` where a fusion, or shared keys, cannot be compiled like this."""
    owners = (config.blocks[index].shares_kv_with for index in blocks)
    if any(owner is not None and owner not in blocks for owner in owners):
        raise ValueError("blocks that share keys and values are of one segment")
    fusion = config.fusion
    if fusion is None:
        return
    if blocks != range(config.num_layers) or not (embed and head):
        raise ValueError("a feature head is one segment")
    if (fusion.width == config.hidden_size) != bool(fusion.steps.join):
        raise ValueError("a head of this kind cannot go on from its own features")


def features_are_own(config: ModelConfig, features: Floats | None, rows: int) -> bool:
    """Tell whether a head is given its own output rather than features of its target.

    The features' width decides. It matters only where a head treats them differently (EAGLE-3).

    Raises:
        ValueError: they are neither.
    """
    if config.fusion is None:
        return False
    if features is not None and features.shape == (rows, config.fusion.width):
        return False
    if features is None or features.shape != (rows, config.hidden_size):
        raise ValueError("a feature head needs the features of every row")
    return True


class Backend(Protocol):
    """Compiles segments for one device."""

    @property
    def kept(self) -> Mapping[Hashable, object]:
        """Matrices of the model compiled last that a head may borrow, by names and format."""
        ...

    def compile(
        self, config: ModelConfig, weights: Weights, blocks: range, *, embed: bool, head: bool
    ) -> Segment:
        """Build the segment `blocks`, with the embedding before and the head after it if asked."""
        ...
