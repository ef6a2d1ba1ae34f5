"""What a backend provides: segments of decoder blocks, and one cache per sequence and segment."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from engine.backend.native.cancel import CancelFlag
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
    """What a segment hands on: C-contiguous arrays on the host, valid until its next forward.

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

    def reusable(self, slots: int) -> int:
        """How many of the first `slots` slots it can go back to; a recurrent memory cannot."""
        ...

    def copy_prefix(self, other: SegmentCache, slots: int) -> None:
        """Take over the first `slots` slots of another cache of the same segment."""
        ...

    def move(self, sources: Sequence[int], target: int) -> None:
        """Copy the slots `sources` (ascending, each >= its destination) to target, target+1, ..."""
        ...


class Segment(Protocol):
    """A contiguous run of decoder blocks on one device, or a feature head, which is one segment."""

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

    @property
    def mapped_bytes(self) -> int:
        """Those of them that lie in files, whose memory the system may take and fill again."""
        ...

    def new_cache(self, slots: int) -> SegmentCache:
        """An empty cache with room for `slots` tokens."""
        ...

    def run(self, step: Step, cache: SegmentCache, hidden: Floats | None) -> SegmentOutput:
        """One forward.

        `hidden` is the previous segment's output, None for the first segment. A feature head gets
        the target's features instead, [n, fusion.width], beside the tokens; its own output is what
        it takes for features when it drafts on.
        """
        ...


@dataclass(frozen=True, slots=True)
class Script:
    """Words put into a draft's mouth, to measure with a known acceptance what drafting costs.

    Attributes:
        tokens: by position; 0 follows the last.
        weight: log of the probability that the draft gives them.
    """

    tokens: Sequence[int]
    weight: float


@dataclass(frozen=True, slots=True)
class Ranking:
    """How a draft's candidates rank: by its probabilities, or as the target would draw from them.

    Attributes:
        temperature: of the target's sampler; 0 is greedy.
        seed: of its noise.
        share_noise: whether the noise of its draws is added, where it draws at all.
        script: what comes out on top all the same.
    """

    temperature: float
    seed: int
    share_noise: bool
    script: Script | None = None


class TreeBudget(Protocol):
    """How far a drafted tree may grow; see `engine.speculative.drafters.drafter.Budget`."""

    @property
    def nodes(self) -> int:
        """Most drafted nodes."""
        ...

    @property
    def depth(self) -> int:
        """Most levels."""
        ...

    @property
    def width(self) -> int:
        """Most nodes expanded per level, and most children per node."""
        ...

    @property
    def floor(self) -> float:
        """No level is drafted below paths whose probabilities sum to less."""
        ...


@dataclass(frozen=True, slots=True)
class DraftedTree:
    """A tree drafted in one call.

    Attributes:
        tokens: token of each node, the root first, then the best scores first.
        parents: index of each node's parent, -1 for the root; parents come first.
        scores: log of each node's probability, at most its parent's.
        staged_tokens: tokens of the nodes whose keys the cache now holds behind the committed ones.
        staged_parents: for each of them, the index of an earlier one or -1.
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    scores: tuple[float, ...]
    staged_tokens: list[int]
    staged_parents: list[int]


@runtime_checkable
class TreeDrafting(Protocol):
    """What a segment may offer that is a whole model: to draft a tree in one call."""

    def draft(
        self,
        cache: SegmentCache,
        committed: int,
        slots: int,
        pending: Sequence[int],
        ranking: Ranking,
        budget: TreeBudget,
        features: Floats | None = None,
    ) -> DraftedTree:
        """Process committed tokens, then draft behind them.

        Args:
            cache: of the sequence.
            committed: tokens of it whose keys the cache holds.
            slots: of the cache, that may be used.
            pending: committed tokens behind those, at least one; the last is the root.
            ranking: how candidates rank.
            budget: how far the tree may grow.
            features: for a feature head: the target's of the token before each pending one, fp32
                [pending, fusion.width]. The head's first token is the sequence's second, so that
                what it drafts first stands at position committed + pending + 1.
        """
        ...


Ranked = list[tuple[int, float]]
"""Tokens that may follow a node with the logs of their chances, the best first."""


@runtime_checkable
class TreeExpanding(Protocol):
    """What a segment may offer that is a whole model: to rank what follows nodes in one call."""

    def expand(
        self,
        step: Step,
        cache: SegmentCache,
        ranking: Ranking,
        width: int,
        cancel: CancelFlag | None = None,
    ) -> list[Ranked] | None:
        """One forward, and the likeliest tokens behind each of the rows whose logits are wanted.

        Args:
            step: of any nodes of a tree, at different depths too.
            cache: of the sequence.
            ranking: how candidates rank, each at the position behind its own row.
            width: most candidates of a row.
            cancel: looked at on the way.

        Returns:
            `width` candidates per wanted row, fewer where there are no more numbers; None where
            `cancel` was set before it was done.

        Raises:
            ValueError: an impossible width or rows that do not ascend.
        """
        ...


@dataclass(frozen=True, slots=True)
class Verified:
    """The outcome of verifying one tree.

    Attributes:
        path: nodes whose keys stay: the root and every node the walk descended to.
        tokens: the target's draws, at least one; the last one is the next root.
        accepted: how many of them were drafted.
        offered: at how many of the nodes where it drew there were drafted tokens to choose from.
        output: hidden states and taps of all nodes, without logits, where they were asked for;
            valid until the segment's next forward.
        chances: what the target's logits give each of `tokens`, before penalties, filters and
            temperature; empty where nobody tells.
        refused: the same of the first node that was on offer where none was drawn; None: no such.
    """

    path: tuple[int, ...]
    tokens: tuple[int, ...]
    accepted: int
    offered: int
    output: SegmentOutput | None = None
    chances: tuple[float, ...] = field(default=(), compare=False)
    refused: float | None = field(default=None, compare=False)

    @property
    def offered_by_depth(self) -> tuple[int, ...]:
        """1 for every depth at which a node was on offer."""
        return (1,) * self.offered

    @property
    def accepted_by_depth(self) -> tuple[int, ...]:
        """For each of them 1 where the target's draw was among the nodes, 0 where none was."""
        return (1,) * self.accepted + (0,) * (self.offered - self.accepted)


class Draws(Protocol):
    """The target's draws in one answer, by a backend that knows its own."""

    @property
    def vocab(self) -> int:
        """Width of the logits it draws from."""
        ...


@runtime_checkable
class TreeVerifying(Protocol):
    """What a segment may offer that has the head: to verify a tree in one call."""

    def verify(
        self,
        cache: SegmentCache,
        committed: int,
        nodes: Sequence[int],
        parents: Sequence[int],
        draws: Draws,
        tokens: Sequence[int],
        *,
        limit: int,
        stop_ids: Collection[int],
        hidden: Floats | None = None,
        taps: tuple[int, ...] | None = None,
    ) -> Verified:
        """A forward over the tree, the draws down it; the path's keys are in place afterwards.

        Args:
            cache: of the sequence.
            committed: tokens of it whose keys the cache holds.
            nodes: token of each node, the root's first; it is the last of `tokens`.
            parents: index of each node's parent, which comes before it; -1 for the root.
            draws: the target's.
            tokens: committed tokens, the root included.
            limit: most tokens to draw.
            stop_ids: tokens that nothing follows.
            hidden: the previous segment's output over the nodes; None for a whole model.
            taps: of its blocks, those whose outputs are wanted beside the final hidden states, in
                `Verified.output`; None: nothing is wanted.

        Raises:
            InvalidLogits: the logits at a node of the path are not finite.
        """
        ...


class Backend(Protocol):
    """Compiles segments for one device."""

    def compile(
        self, config: ModelConfig, weights: Weights, blocks: range, *, embed: bool, head: bool
    ) -> Segment:
        """Build the segment `blocks`, with the embedding before and the head after it if asked."""
        ...
