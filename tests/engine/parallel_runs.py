"""The parallel loop for tests: at any pace, and looked through once it is done."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from time import monotonic

import numpy as np
from harness import beside

from engine.backend.decoder import Decoder
from engine.backend.prefix_cache import PrefixCache
from engine.backend.round import Round
from engine.backend.sequence import SequenceState
from engine.backend.tree import TokenTree
from engine.request import Bias, SamplingParams
from engine.speculative.constraint import Constraint
from engine.speculative.controller import Controller
from engine.speculative.decoding import Decoding
from engine.speculative.draft_tree import DraftPace
from engine.speculative.draft_worker import AT_ONCE, DraftWorker, Outlook, ParallelDraft
from engine.speculative.drafters.drafter import DraftContext, Drafter
from engine.speculative.loops import parallel
from engine.speculative.sampler import Sampler
from engine.speculative.strategies import DraftingStrategy

LIMIT_S = 240.0
"""Seconds after which a test fails instead of waiting on."""


class RandomPace(Controller):
    """Every decision is drawn with dice, so that no lucky constant hides a mistake.

    Args:
        rng: the dice.
        waits: how likely the target waits for a step rather than go on.
    """

    def __init__(self, rng: np.random.Generator, waits: float = 0.85) -> None:
        super().__init__(ways=[DraftingStrategy.PARALLEL], forced=True)
        self._rng, self._waits = rng, waits

    def pace(self, *, ready: bool) -> DraftPace | None:
        del ready
        rng = self._rng
        if rng.random() < 0.1:
            return None
        return DraftPace(
            width=int(rng.integers(1, 7)),
            theta=float(rng.choice([1.0, 0.5, 0.1, 0.0])),
            ahead=int(rng.choice([0, 2, 8, 40, 200])),
            floor=float(rng.choice([0.0, 0.0, 0.05])),
            overlap=bool(rng.random() < 0.8),
        )

    def worth_waiting(self, outlook: Outlook) -> bool:
        return outlook.left is not None and bool(self._rng.random() < self._waits)

    def prune(self, tree: TokenTree) -> TokenTree:
        return tree.best(int(self._rng.integers(0, len(tree) + 1)))


@dataclass(frozen=True, slots=True)
class ParallelRun:
    """What the parallel loop wrote."""

    tokens: list[int]
    rounds: list[Round]
    state: SequenceState

    @property
    def accepted(self) -> int:
        """Drafted tokens that were right."""
        return sum(done.accepted for done in self.rounds)


def lane_of(draft: Decoder, context: int = 512, others: Sequence[Drafter] = ()) -> ParallelDraft:
    return ParallelDraft(draft, PrefixCache(draft, context, 1 << 28), others)


def run(
    target: Decoder,
    lane: ParallelDraft,
    prompt: Sequence[int],
    sampling: SamplingParams,
    *,
    controller: Controller | None = None,
    state: SequenceState | None = None,
    max_tokens: int | None = 48,
    stop_ids: Sequence[int] = (),
    context: int = 512,
    cancelled: Callable[[], bool] = lambda: False,
    patient: bool = True,
    answer_start: int | None = None,
    written: list[int] | None = None,
    prepared: Callable[[], object] = lambda: None,
    constraint: Constraint | None = None,
    bias: Bias = (),
) -> ParallelRun:
    """Decode with the parallel loop.

    A patient run lets the draft read the prompt first, unless it is a head. `written` gets the
    tokens as they come. `prepared` is called before the first round.
    """
    decoding = Decoding(
        target,
        state or target.new_state(context),
        list(prompt),
        Sampler(
            sampling,
            len(prompt) if answer_start is None else answer_start,
            constraint=constraint,
            bias=bias,
        ),
        stop_ids=stop_ids,
        max_tokens=max_tokens,
        cancelled=cancelled,
    )
    features = decoding.state.features
    drafting = DraftContext(decoding.tokens, decoding.sampler, decoding.cancelled, features)
    with lane.worker(drafting, AT_ONCE if lane.reads_alone else None) as following:
        for _ in decoding.prefill():
            pass
        if patient and lane.reads_alone:
            until_ready(following)
        prepared()
        rounds = []
        controller = controller or beside(costs=lane.costs, ahead=True)
        controller.begin()
        for done in parallel(decoding, following, controller):
            rounds.append(done)
            if written is not None:
                written += done.tokens
    assert no_lane_is_left()
    answer = decoding.tokens[len(prompt) :]
    assert answer == [token for done in rounds for token in done.tokens], "shown, but not decoded"
    assert list(decoding.state.tokens) == decoding.tokens[:-1]
    assert not decoding.state.staged
    _assert_merit(rounds)
    if lane.reads_alone:
        assert_kept_keys(lane, decoding.tokens)
    return ParallelRun(answer, rounds, decoding.state)


def until_ready(following: DraftWorker) -> None:
    """Wait until the draft has read the prompt, or has no room for it."""
    end = monotonic() + LIMIT_S
    while not following.ready and not following._over:
        assert monotonic() < end, "the lane never catches up"
        following.wait(0.01)


def no_lane_is_left() -> bool:
    """Whether no draft lane's thread is there any more."""
    return all(thread.name != "draft worker" for thread in threading.enumerate())


def _assert_merit(rounds: Sequence[Round]) -> None:
    """Spans of drafting follow each other, and no second of them counts twice."""
    spans = [span for done in rounds for span in done.drafting]
    assert all(span.start <= span.end for span in spans)
    assert all(one.end <= two.start for one, two in pairwise(spans))
    drafted = sum(span.seconds for span in spans)
    assert sum(done.useful + done.wasted for done in rounds) <= drafted + 1e-6


def assert_kept_keys(lane: ParallelDraft, tokens: Sequence[int] | None = None) -> None:
    """What the draft keeps for the next answer is committed tokens, with the keys of these."""
    draft, pool, last = lane._draft, lane._pool, lane._last
    own = None if last is None else last._model._state  # None: it had no time to begin
    for state in pool._states:
        kept = list(state.tokens)
        assert not state.staged
        if tokens is not None and state is own:
            assert kept == list(tokens[: len(kept)]), "the draft keeps what was not committed"
        probe = [7, 8, 9]
        if not kept or len(kept) + len(probe) > state.slots:
            continue
        after = np.array(draft.forward(state, probe).logits)
        state.discard()
        fresh = draft.new_state(pool.context)
        draft.forward(fresh, kept, logit_rows=())
        fresh.commit(range(len(kept)))
        np.testing.assert_allclose(after, draft.forward(fresh, probe).logits, rtol=1e-4, atol=1e-4)
