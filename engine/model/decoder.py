"""Decoder: embedding, segments and head as one forward over one sequence."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from engine.backend.segment import (
    Backend,
    DraftedTree,
    Draws,
    Floats,
    Ranking,
    Segment,
    TreeBudget,
    TreeDrafting,
    TreeVerifying,
    Verified,
    Weights,
)
from engine.model.config import ModelConfig
from engine.model.other_family import OtherConfig
from engine.model.sequence import SequenceState
from engine.plan.plan import Share

MAX_TREE = 64
"""Most nodes a state can stage behind a full context."""


@dataclass(frozen=True, slots=True)
class Forward:
    """What a forward over n tokens gives, valid until the decoder's next forward.

    Attributes:
        hidden: fp32 [n, d], after the final norm (the "feature" of Dovetail's draft).
        logits: fp32 [m, vocab] for the asked rows.
        taps: block index -> fp32 [n, d], that block's output.
    """

    hidden: Floats
    logits: Floats
    taps: dict[int, Floats]


class Decoder:
    """A dense decoder-only model, split into segments that may lie on different devices."""

    def __init__(self, config: ModelConfig | OtherConfig, segments: Sequence[Segment]) -> None:
        self.config = config
        self.segments = tuple(segments)
        first, last = self.segments[0], self.segments[-1]
        self._drafting = first if first is last and isinstance(first, TreeDrafting) else None
        self._verifying = last if isinstance(last, TreeVerifying) else None

    @classmethod
    def build(cls, config: ModelConfig, weights: Weights, backend: Backend) -> Decoder:
        """The whole model as a single segment of one backend."""
        blocks = range(config.num_layers)
        return cls(config, [backend.compile(config, weights, blocks, embed=True, head=True)])

    @classmethod
    def placed(
        cls,
        config: ModelConfig,
        weights: Weights,
        shares: Sequence[Share],
        backends: Mapping[str, Backend],
    ) -> Decoder:
        """A segment for every share, compiled by the backend of its device.

        Raises:
            ValueError: the shares are not the whole model, once, from the embedding to the head.
        """
        blocks = [block for share in shares for block in share.blocks]
        embeds = [index for index, share in enumerate(shares) if share.embeds]
        heads = [index for index, share in enumerate(shares) if share.heads]
        whole = blocks == list(range(config.num_layers))
        if not whole or embeds != [0] or heads != [len(shares) - 1]:
            raise ValueError("the shares are not the whole model")
        return cls(
            config,
            [
                backends[share.device].compile(
                    config, weights, share.blocks, embed=share.embeds, head=share.heads
                )
                for share in shares
            ],
        )

    @property
    def signature(self) -> str:
        """Numeric signature: the text is a function of it, the ids, the sampler and the seed.

        Where the blocks differ it says which is which: "sim:q4/kv-f16[0:8]+cpu:q4/kv-f16[8:24]".
        An embedding gives the same numbers everywhere.
        """
        last = self.segments[-1]
        computing = [segment for segment in self.segments if segment.blocks or segment is last]
        runs = [
            (own, [block for segment in alike for block in segment.blocks])
            for own, alike in groupby(computing, _signature)
        ]
        if len(runs) == 1:
            return runs[0][0]
        places = [f"{blocks[0]}:{blocks[-1] + 1}" if blocks else "head" for _, blocks in runs]
        return "+".join(f"{own}[{place}]" for (own, _), place in zip(runs, places, strict=True))

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights held on all devices."""
        return sum(segment.weight_bytes for segment in self.segments)

    @property
    def mapped_bytes(self) -> int:
        """Those of them that lie in files, whose memory the system may take and fill again."""
        return sum(segment.mapped_bytes for segment in self.segments)

    def new_state(self, context: int) -> SequenceState:
        """An empty sequence with room for `context` committed tokens and a tree behind them."""
        caches = [segment.new_cache(context + MAX_TREE) for segment in self.segments]
        return SequenceState(caches, context, MAX_TREE)

    @property
    def drafts_trees(self) -> bool:
        """Whether `draft` is there."""
        return self._drafting is not None

    def draft(
        self, state: SequenceState, pending: Sequence[int], ranking: Ranking, budget: TreeBudget
    ) -> DraftedTree:
        """Process and commit `pending`, then draft a tree behind it, in one call.

        The tree's inner nodes are staged in `state` afterwards; see `TreeDrafting`.

        Raises:
            ValueError: this decoder cannot, see `drafts_trees`.
        """
        if self._drafting is None:
            raise ValueError("these segments cannot draft in one call")
        state.discard()
        tree = self._drafting.draft(
            state.caches[0], len(state), state.slots, pending, ranking, budget
        )
        state.extend(pending)
        if tree.staged_tokens:
            state.adopt(tree.staged_tokens, tree.staged_parents)
        return tree

    @property
    def verifies_trees(self) -> bool:
        """Whether `verify` is there."""
        return self._verifying is not None

    def verify(
        self,
        state: SequenceState,
        nodes: Sequence[int],
        parents: Sequence[int],
        draws: Draws,
        tokens: Sequence[int],
        *,
        limit: int,
        stop_ids: Collection[int],
    ) -> Verified:
        """A forward over a tree, the target's draws down it, and the commit.

        One call of the segment with the head does all of it, or what the others leave to do. For
        the arguments see `TreeVerifying`.

        Raises:
            ValueError: this decoder cannot (see `verifies_trees`), or the state has no room.
            InvalidLogits: the logits at a node of the path are not finite.
        """
        if self._verifying is None:
            raise ValueError("these segments cannot verify in one call")
        committed, cache, hidden = len(state), state.caches[-1], None
        if committed + len(nodes) > state.slots:
            raise ValueError("the tree has more nodes than the state has room for")
        if before := self.segments[:-1]:
            state.discard()
            step = state.stage(nodes, parents)
            for segment, own in zip(before, state.caches, strict=False):
                hidden = segment.run(step, own, hidden).hidden
        verified = self._verifying.verify(
            cache, committed, nodes, parents, draws, tokens,
            limit=limit, stop_ids=stop_ids, hidden=hidden,
        )  # fmt: skip
        if before:
            state.commit(verified.path, in_place=cache)
        else:
            state.extend([nodes[node] for node in verified.path])
        return verified

    def forward(
        self,
        state: SequenceState,
        tokens: Sequence[int],
        parents: Sequence[int] | None = None,
        *,
        logit_rows: Sequence[int] | None = None,
        taps: tuple[int, ...] = (),
    ) -> Forward:
        """Stage n tokens behind what is staged in `state` and compute them; see `stage`."""
        step = state.stage(tokens, parents, logit_rows=logit_rows, taps=taps)
        output = self.segments[0].run(step, state.caches[0], None)
        tapped = output.taps
        for segment, cache in zip(self.segments[1:], state.caches[1:], strict=True):
            output = segment.run(step, cache, output.hidden)
            tapped |= output.taps
        if output.logits is None:
            raise ValueError("the last segment has no head")
        return Forward(output.hidden, output.logits, tapped)


def _signature(segment: Segment) -> str:
    return segment.signature
