"""What the tests of the draft lane have in common. Nothing sleeps; whatever waits is bounded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from threading import Semaphore
from time import monotonic

import numpy as np

from engine.backend.decoder import Decoder, Forward
from engine.backend.native.pool import CancelFlag
from engine.backend.prefix_cache import PrefixCache
from engine.backend.ranking import best_ranked, rank
from engine.backend.round import Expanded, Ranking
from engine.backend.sequence import SequenceState
from engine.backend.tree import TokenTree
from engine.model.weights.readable import Floats
from engine.request import SamplingParams
from engine.speculative.draft_cache import BRANCHES
from engine.speculative.draft_tree import DraftPace
from engine.speculative.draft_worker import DraftWorker, ParallelDraft
from engine.speculative.drafters.drafter import DraftContext
from engine.speculative.drafters.lookup import LookupDrafter
from engine.speculative.sampler import Sampler

LIMIT_S = 240.0
PROMPT = [1, *range(20, 60)]
PARAMS = {
    "greedy": SamplingParams(),
    "sampled": SamplingParams(temperature=0.8, seed=2**63 + 17),
}


class Watched(Decoder):
    """The same segments; a test sees every forward and may hold them up or make one fail."""

    def __init__(self, model: Decoder) -> None:
        super().__init__(model.config, model.segments, model.ids)
        self.rows: list[int] = []
        self.gate: Semaphore | None = None
        self.begun = Semaphore(0)
        self.failing = inf
        """The forward that fails, counted from 0."""

    def forward(
        self,
        state: SequenceState,
        tokens: Sequence[int],
        parents: Sequence[int] | None = None,
        *,
        logit_rows: Sequence[int] | None = None,
        taps: tuple[int, ...] = (),
        features: Floats | None = None,
    ) -> Forward:
        self._pass(len(tokens))
        return super().forward(
            state, tokens, parents, logit_rows=logit_rows, taps=taps, features=features
        )

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
        self._pass(len(tokens))
        return super().expand(state, tokens, parents, wanted, ranking, width, cancel, features)

    def await_forwards(self, count: int) -> None:
        """Until so many more have begun."""
        for _ in range(count):
            assert self.begun.acquire(timeout=LIMIT_S)

    def _pass(self, rows: int) -> None:
        self.rows.append(rows)
        self.begun.release()
        if self.gate is not None:
            assert self.gate.acquire(timeout=LIMIT_S)
        if len(self.rows) > self.failing:
            raise RuntimeError("the draft has failed")


def context(tokens: Sequence[int], params: SamplingParams | None = None) -> DraftContext:
    return DraftContext(list(tokens), Sampler(params or SamplingParams()), lambda: False)


def lane_of(model: Decoder, limit: int = 256, *, lookup: bool = False) -> ParallelDraft:
    others = [LookupDrafter()] if lookup else []
    return ParallelDraft(model, PrefixCache(model, limit, 1 << 28), others)


def until(following: DraftWorker, what: Callable[[], bool]) -> None:
    """Wait for the lane."""
    end = monotonic() + LIMIT_S
    while not what():
        assert monotonic() < end, "the lane does not get there"
        following.outlook()
        if not what():
            following.wait(0.02)


def at_rest(following: DraftWorker) -> None:
    """Wait until the lane has drafted all that its pace allows."""
    until(following, lambda: following.ready and not following.outlook().promise)


def assert_right(
    model: Decoder,
    tokens: Sequence[int],
    params: SamplingParams,
    tree: TokenTree,
    before: int = 0,
) -> int:
    """Every computed node has the candidates that a fresh state finds; how many nodes those are.

    `model` must be one that the lane does not compute with at the moment. It has not read so many
    tokens `before` these.
    """
    sampler, computed, below = Sampler(params), 0, tree.children()
    paths: list[list[int]] = [[]]
    for node in range(1, len(tree)):
        paths.append([*paths[tree.parents[node]], tree.tokens[node]])
    for node, children in enumerate(below):
        if not children:
            continue
        computed += 1
        text = [*tokens, *paths[node]]
        state = model.new_state(len(text))
        logits = model.forward(state, text, logit_rows=(len(text) - 1,)).logits
        ranked = rank(logits[0], before + len(text), sampler.ranking)
        expected = best_ranked(ranked, BRANCHES)
        found = {tree.tokens[child]: tree.scores[child] for child in children.values()}
        wanted = {token: tree.scores[node] + weight for token, weight in expected}
        assert found.keys() <= wanted.keys()
        assert next(iter(found)) == expected[0][0]
        for token, score in found.items():
            np.testing.assert_allclose(score, wanted[token], rtol=1e-5, atol=1e-5)
    return computed


FEW = DraftPace(ahead=6)
