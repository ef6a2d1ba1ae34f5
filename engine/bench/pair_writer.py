"""A loaded pair as a writer of benchmark answers, with a clock around its drafter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter

from engine.backend.round import Budget
from engine.backend.tree import TokenTree
from engine.bench.harness import BenchAnswer, answer
from engine.events import FinishReason
from engine.loading.load import LoadedPair
from engine.request import ChatRequest
from engine.speculative.drafters.combined import CombinedDrafter
from engine.speculative.drafters.drafter import DraftContext, Drafter
from engine.speculative.loops import Plain, Serial


class PairWriter:
    """A loaded pair as a writer (see `Writer`); the last of its drafters has a clock.

    Args:
        pair: target and what drafts.
        share_noise: whether drafts are ranked with the target's noise.
    """

    def __init__(self, pair: LoadedPair, *, share_noise: bool = True) -> None:
        self._share_noise = share_noise
        self._clock: TimedDrafter | None = None
        loop = pair.loop
        if isinstance(loop, Serial) and isinstance(loop.drafter, CombinedDrafter):
            *others, last = loop.drafter.drafters
            self._clock = TimedDrafter(last)
            loop = replace(loop, drafter=CombinedDrafter([*others, self._clock]))
            pair = replace(pair, loop=loop)
        self.pair = pair
        self.tokens = 0
        """Tokens of the last answer, the first one left out."""

    def write(self, request: ChatRequest) -> BenchAnswer:
        """See `Writer`."""
        clock = self._clock
        if clock is not None:
            clock.seconds, clock.levels = 0.0, 0
        done = answer(self.pair, request, share_noise=self._share_noise)
        written = BenchAnswer(
            stats=done.stats,
            token_ids=done.token_ids,
            ended=done.reason is FinishReason.STOP,
            level_s=clock.seconds if clock else 0.0,
            levels=clock.levels if clock else 0,
        )
        self.tokens = written.tokens
        return written


def without_draft(pair: LoadedPair) -> LoadedPair:
    """The pair's target alone."""
    return replace(pair, loop=Plain())


@dataclass(slots=True)
class TimedDrafter:
    """A drafter, and how long the levels of its trees have taken, overhead included."""

    drafter: Drafter
    seconds: float = 0.0
    levels: int = 0

    @property
    def name(self) -> str:
        """Name of the drafter."""
        return self.drafter.name

    def begin_seconds(self, context: DraftContext) -> float:
        """See `Drafter`."""
        return self.drafter.begin_seconds(context)

    def begin(self, context: DraftContext) -> None:
        """See `Drafter`."""
        self.drafter.begin(context)

    def propose(self, context: DraftContext, budget: Budget) -> TokenTree:
        """See `Drafter`."""
        begun = perf_counter()
        tree = self.drafter.propose(context, budget)
        if levels := max(tree.depths):
            self.seconds += perf_counter() - begun
            self.levels += levels
        return tree

    def observe(self, committed: Sequence[int]) -> None:
        """See `Drafter`."""
        self.drafter.observe(committed)
