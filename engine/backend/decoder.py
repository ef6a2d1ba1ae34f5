"""Decoder: embedding, segments and head as one forward over one sequence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from engine.backend.ledger import Account, unlimited
from engine.backend.native.pool import CancelFlag
from engine.backend.native.sampling import NativeDraws
from engine.backend.ranking import best_ranked, rank
from engine.backend.round import (
    Candidates,
    DraftRequest,
    Expanded,
    Ranking,
    Verified,
    VerifyRequest,
)
from engine.backend.segment import Backend, Segment, Share
from engine.backend.sequence import ROOT, FeatureStore, SequenceState
from engine.backend.tree import TokenTree
from engine.errors import Cancelled
from engine.model.config import Fusion, ModelConfig
from engine.model.other_family import OtherConfig
from engine.model.tensors import HEAD_IDS
from engine.model.weights.readable import Floats, Weights

MAX_TREE = 64
"""Most nodes a state can stage behind a full context."""


@dataclass(frozen=True, slots=True)
class Forward:
    """Results of a forward over n tokens, valid until the decoder's next forward.

    Attributes:
        hidden: fp32 [n, d], after the final norm (the "feature" of Dovetail's draft).
        logits: fp32 [m, vocab] for the asked rows.
        taps: block index -> fp32 [n, d], that block's output.
    """

    hidden: Floats
    logits: Floats
    taps: dict[int, Floats]


class Decoder:
    """A dense decoder-only model, split into segments that may lie on different devices.

    Args:
        config: of the model.
        segments: from the embedding to the head.
        ids: the token of each logit, where these are not those of the whole vocabulary.
    """

    def __init__(
        self,
        config: ModelConfig | OtherConfig,
        segments: Sequence[Segment],
        ids: NDArray[np.int64] | None = None,
    ) -> None:
        self.config = config
        self.segments = tuple(segments)
        self.ids = ids
        self._feeds: Fusion | None = None
        self._last_taps: tuple[int, ...] | None = None
        self._account = unlimited()
        self._alone = len(self.segments) == 1
        self._last = self.segments[-1]

    @classmethod
    def build(cls, config: ModelConfig, weights: Weights, backend: Backend) -> Decoder:
        """The whole model as a single segment of one backend."""
        blocks = range(config.num_layers)
        segment = backend.compile(config, weights, blocks, embed=True, head=True)
        return cls(config, [segment], _ids(config, weights))

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
            _ids(config, weights),
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
        """Bytes of weights mapped from files, whose memory the system may reclaim and reload."""
        return sum(segment.mapped_bytes for segment in self.segments)

    def feed(self, head: Fusion, account: Account) -> None:
        """Keep features for a head that drafts for this model; its states have them from now on.

        Args:
            head: says which.
            account: where they are entered, on the host.
        """
        self._feeds, self._account = head, account
        self._last_taps = tuple(tap for tap in head.taps if tap in self._last.blocks)

    @property
    def feeds_a_head(self) -> bool:
        """Tell whether `feed` was called: keeping features takes a part of every forward."""
        return self._feeds is not None

    def new_state(self, context: int) -> SequenceState:
        """An empty sequence with room for `context` committed tokens and a tree behind them."""
        slots, features = context + MAX_TREE, None
        caches = [segment.new_cache(slots) for segment in self.segments]
        if self._feeds is not None:
            features = FeatureStore(slots, self._feeds.width, self._account)
        return SequenceState(caches, context, MAX_TREE, features)

    def over_vocabulary(self, logits: Floats) -> Floats:
        """Logits of some rows by token id, fp32 [rows, vocab]; -inf for what has none."""
        if self.ids is None:
            return logits
        spread = np.full((len(logits), self.config.vocab_size), -np.inf, dtype=np.float32)
        spread[:, self.ids] = logits
        return spread

    @property
    def drafts_trees(self) -> bool:
        """True where `draft` is one call: for a single segment on a backend that has it."""
        return self._alone and self._last.drafts

    def draft(
        self,
        state: SequenceState,
        request: DraftRequest,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> TokenTree:
        """Process and commit pending tokens, then draft a tree behind: in one call, or by `grow`.

        Args:
            state: of the draft; the tree's inner nodes are staged in it afterwards.
            request: the tokens, and how to draft.
            cancelled: asked between levels where each is a forward of its own. In one call a
                `CancelFlag` is looked at between blocks, and leaves the root alone.
        """
        state.discard()
        if not self.drafts_trees:
            return self.grow(state, request, cancelled)
        cancel = cancelled if isinstance(cancelled, CancelFlag) else None
        slots = state.slots_behind(len(state) + len(request.pending))
        drafted = self._last.draft(state.caches[0], len(state), slots, request, cancel)
        if drafted is None:
            return TokenTree.root(request.pending[-1])
        state.extend(request.pending)
        if drafted.staged_tokens:
            state.adopt(drafted.staged_tokens, drafted.staged_parents)
        return drafted.tree

    def grow(
        self,
        state: SequenceState,
        request: DraftRequest,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> TokenTree:
        """Draft with an `expand` per level (see `draft`): the definition of engine/native/draft.c.

        The most promising nodes of a level go through the model and offer their likeliest children,
        as in EAGLE-2 (arXiv 2406.16858).
        """
        pending, budget, given = request.pending, request.budget, request.features
        cancel = cancelled if isinstance(cancelled, CancelFlag) else None
        ranking, last = request.ranking, len(pending) - 1
        found = self.expand(
            state, pending, range(-1, last), (last,), ranking, budget.width, cancel, given
        )
        if found is None:
            return TokenTree.root(pending[-1])
        state.commit(range(len(pending)))
        outputs, behind = found.outputs[last:], len(state)
        nodes: list[tuple[int, int, float]] = []
        # Beams of the level: (node in `nodes` + 1, staged node, score).
        beams = [(0, ROOT, 0.0)]
        for level in range(budget.depth):
            children = [
                (beam, token, beams[beam][2] + score)
                for beam, candidates in enumerate(found.candidates)
                for token, score in candidates
            ]
            first = len(nodes) + 1
            nodes.extend((beams[beam][0], token, score) for beam, token, score in children)
            best = sorted(range(len(children)), key=lambda i: -children[i][2])[: budget.width]
            mass = float(np.exp([children[i][2] for i in best]).sum())
            if level + 1 == budget.depth or not best or mass < budget.floor or cancelled():
                break
            above, tokens = [children[i][0] for i in best], [children[i][1] for i in best]
            staged = len(state.staged)
            if behind + staged + len(best) > state.slots:
                break
            parents = [beams[beam][1] for beam in above]
            own = None if given is None else outputs[above]
            found = self.expand(
                state, tokens, parents, range(len(best)), ranking, budget.width, cancel, own
            )
            if found is None:
                break
            outputs = found.outputs
            beams = [(first + i, staged + row, children[i][2]) for row, i in enumerate(best)]
        return TokenTree.build(pending[-1], nodes, most=budget.nodes)

    @property
    def expands_trees(self) -> bool:
        """True where `expand` is one call: for a single segment that has it, feeding no head."""
        return self._alone and self._last.expands and self._feeds is None

    def expand(
        self,
        state: SequenceState,
        tokens: Sequence[int],
        parents: Sequence[int],
        wanted: Sequence[int],
        ranking: Ranking,
        width: int,
        cancel: CancelFlag | None = None,
        features: Floats | None = None,
    ) -> Expanded | None:
        """Stage nodes behind what is staged, compute them, and rank what may follow.

        Both loops draft by it, but where a level-by-level tree is one call.

        Args:
            state: where the nodes stay staged if all goes well.
            tokens: n token ids.
            parents: for each, the index of an earlier staged node or ROOT.
            wanted: rows (0..n-1, ascending) whose candidates are wanted; may be none.
            ranking: how candidates rank, with the noise of the position behind their row.
            width: most candidates of a row.
            cancel: looked at between blocks where it is one call, else before.
            features: what the rows of a head take: the target's features, fp32 [n, fusion.width],
                or outputs of the head itself, [n, hidden].

        Returns:
            Candidates of each wanted row; None where it was cancelled, and nothing is staged.

        Raises:
            ValueError: the rows do not ascend, or as `stage` has it.
        """
        if list(wanted) != sorted(wanted):
            raise ValueError("the rows whose candidates are wanted ascend")
        if not self.expands_trees:
            if cancel:
                return None
            return self._expand_by_forward(state, tokens, parents, wanted, ranking, width, features)
        step = state.stage(tokens, parents, logit_rows=wanted, cancel=cancel)
        found = None
        try:
            found = self._last.expand(step, state.caches[0], ranking, width, features)
        finally:
            if found is None:
                state.unstage(len(tokens))
        return found

    def _expand_by_forward(
        self,
        state: SequenceState,
        tokens: Sequence[int],
        parents: Sequence[int],
        wanted: Sequence[int],
        ranking: Ranking,
        width: int,
        features: Floats | None,
    ) -> Expanded:
        """Expand nodes by a forward, and rank in numpy; the definition of the one call."""
        forward = self.forward(state, tokens, parents, logit_rows=wanted, features=features)
        depths: list[int] = []
        for parent in state.parents:
            depths.append(0 if parent == ROOT else depths[parent] + 1)
        found: list[Candidates] = []
        for own, row in zip(self.over_vocabulary(forward.logits), wanted, strict=True):
            position = len(state) + depths[row - len(tokens)] + 1 + (features is not None)
            found.append(best_ranked(rank(own, position, ranking), width))
        return Expanded(found, forward.hidden)

    def verify(self, state: SequenceState, draws: NativeDraws, request: VerifyRequest) -> Verified:
        """A forward over a tree, the target's draws down it, and the commit.

        One call of the segment with the head does all of it, or what the others leave to do.

        Raises:
            ValueError: the state has no room.
            InvalidLogits: the logits at a node of the path are not finite.
            Cancelled: the request's flag is set; nothing is committed.
        """
        committed, cache, hidden = len(state), state.caches[-1], None
        nodes = request.nodes
        if committed + len(nodes) > state.slots:
            raise ValueError("the tree has more nodes than the state has room for")
        feeds, tapped = self._feeds, dict[int, Floats]()
        if before := self.segments[:-1]:
            state.discard()
            taps = feeds.taps if feeds else ()
            step = state.stage(nodes, request.parents, taps=taps, cancel=request.cancel)
            for segment, own in zip(before, state.caches, strict=False):
                output = segment.run(step, own, hidden)
                hidden = output.hidden
                tapped |= output.taps
                if request.cancel:
                    raise Cancelled
        verified, found = self._last.verify(
            cache, committed, draws, request, hidden=hidden, taps=self._last_taps
        )
        if feeds is not None:
            if found is None:
                raise ValueError("the last segment keeps its hidden states to itself")
            self._keep(state, committed, found.hidden, tapped | found.taps, verified.path)
        if before:
            state.commit(verified.path, in_place=cache, features_in_place=True)
        else:
            state.extend([nodes[node] for node in verified.path])
        return verified

    def _keep(
        self,
        state: SequenceState,
        first: int,
        hidden: Floats,
        taps: Mapping[int, Floats],
        path: Sequence[int] | None = None,
    ) -> None:
        """Keep the features of tokens just computed, of all or a path, in the slots from `first`.

        A path goes downwards, so that its rows ascend.
        """
        if self._feeds is None or state.features is None:
            return
        rows: slice | list[int] = slice(None)
        if path is not None:
            alone = path[-1] == len(path) - 1  # the first rows, of which no copy is needed
            rows = slice(0, len(path)) if alone else list(path)
        wanted = [taps[tap] for tap in self._feeds.taps] or [hidden]
        state.features.put(first, [each[rows] for each in wanted])

    def forward(
        self,
        state: SequenceState,
        tokens: Sequence[int],
        parents: Sequence[int] | None = None,
        *,
        logit_rows: Sequence[int] | None = None,
        taps: tuple[int, ...] = (),
        features: Floats | None = None,
        cancel: CancelFlag | None = None,
    ) -> Forward:
        """Stage n tokens behind what is staged in `state` and compute them; see `stage`.

        `features`, fp32 [n, fusion.width]: what a head takes beside the tokens.

        Raises:
            Cancelled: the flag is set; the tokens stay staged.
        """
        if self._feeds is not None:
            taps = tuple(dict.fromkeys((*taps, *self._feeds.taps)))
        feeds = self._feeds is not None and not self._feeds.taps
        step = state.stage(
            tokens, parents, logit_rows=logit_rows, taps=taps, feeds=feeds, cancel=cancel
        )
        output = self.segments[0].run(step, state.caches[0], features)
        tapped = output.taps
        for segment, cache in zip(self.segments[1:], state.caches[1:], strict=True):
            if cancel:
                raise Cancelled
            output = segment.run(step, cache, output.hidden)
            tapped |= output.taps
        if output.logits is None:
            raise ValueError("the last segment has no head")
        self._keep(state, step.first_slot, output.hidden, tapped)
        return Forward(output.hidden, output.logits, tapped)


def _ids(config: ModelConfig, weights: Weights) -> NDArray[np.int64] | None:
    """The tokens that a draft of few rows has logits of."""
    if config.rows is None:
        return None
    return weights.float32(HEAD_IDS).astype(np.int64)


def _signature(segment: Segment) -> str:
    return segment.signature
