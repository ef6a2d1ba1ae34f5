"""Loaded pairs as writers of benchmark answers, and all strategies that draft for one target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from time import perf_counter

from engine.backend.round import Budget
from engine.backend.tree import TokenTree
from engine.bench.harness import PLAIN, BenchAnswer, MeasuredStrategy, answer
from engine.bench.scripted_draft import FixedDepth
from engine.errors import UserFixable
from engine.events import FinishReason
from engine.language import tr
from engine.loading.load import LoadedPair
from engine.request import ChatRequest
from engine.speculative.controller import Controller
from engine.speculative.costs import DraftCosts
from engine.speculative.drafters.combined import CombinedDrafter
from engine.speculative.drafters.drafter import DraftContext, Drafter
from engine.speculative.drafters.lookup import LookupDrafter
from engine.speculative.loops import Plain, Serial

LOOKUP = "lookup"


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
    def costs(self) -> DraftCosts | None:
        """See `Drafter`."""
        return self.drafter.costs

    def begin(self, context: DraftContext) -> None:
        """See `Drafter`."""
        self.drafter.begin(context)

    def missing(self, context: DraftContext) -> int:
        """See `Drafter`."""
        return self.drafter.missing(context)

    def read(self, context: DraftContext, most: int) -> None:
        """See `Drafter`."""
        self.drafter.read(context, most)

    def at_once(self, context: DraftContext, most: int) -> TokenTree:
        """See `Drafter`."""
        return self.drafter.at_once(context, most)

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


class LookupUse(StrEnum):
    """Use of lookup beside the drafts that are models."""

    BOTH = "both"
    WITH = "with"
    WITHOUT = "without"


@dataclass(frozen=True, slots=True)
class Fixed:
    """Every round drafts the same: `depth` levels of `width` tokens."""

    depth: int
    width: int = 1

    def __str__(self) -> str:
        return f"chain {self.depth}" if self.width == 1 else f"tree {self.depth}x{self.width}"


def strategies_of(
    pairs: Sequence[tuple[str, LoadedPair]],
    budgets: Sequence[Fixed | None] = (None,),
    lookup: LookupUse = LookupUse.BOTH,
) -> dict[str, MeasuredStrategy]:
    """Plain; then lookup and each draft, by each budget.

    Plain and lookup have a target that feeds no head, if there is such a pair.

    Args:
        pairs: the same target loaded with each of its drafts, and their names.
        budgets: what every round drafts; None: as the controller likes, which may be not at all.
        lookup: whether drafts are measured with lookup beside them, without, or both.

    Raises:
        UserFixable: one of them does not draft in turns.
    """
    alone = min((pair for _, pair in pairs), key=lambda pair: pair.target.feeds_a_head)
    strategies = {PLAIN: MeasuredStrategy(PairWriter(without_draft(alone)))}
    for name, pair, models, helped in _combinations(alone, pairs, lookup):
        for fixed in budgets:
            # Each has its own: what one strategy has learnt is not true of another.
            drafters = [LookupDrafter(), *models] if helped else models
            drafter = CombinedDrafter(drafters)
            loop = Serial(drafter, _controller(pair, drafter, fixed))
            used = replace(pair, loop=loop)
            key = name if fixed is None else f"{name}, {fixed}"
            strategies[key] = MeasuredStrategy(PairWriter(used))
    return strategies


def _combinations(
    alone: LoadedPair, pairs: Sequence[tuple[str, LoadedPair]], lookup: LookupUse
) -> Iterator[tuple[str, LoadedPair, list[Drafter], bool]]:
    """Name, pair, drafts that are models, and whether lookup is beside them."""
    models = [(name, pair, _model(name, pair)) for name, pair in pairs]
    if lookup is not LookupUse.WITHOUT or any(model is None for *_, model in models):
        yield LOOKUP, alone, [], True
    for name, pair, model in models:
        if model is None:
            continue
        if lookup is not LookupUse.WITH:
            yield name, pair, [model], False
        if lookup is not LookupUse.WITHOUT:
            yield f"{name} + {LOOKUP}", pair, [model], True


def _model(name: str, pair: LoadedPair) -> Drafter | None:
    """The draft that is a model; None of a pair that has lookup only."""
    if not isinstance(pair.loop, Serial) or not isinstance(pair.loop.drafter, CombinedDrafter):
        raise UserFixable(
            tr("{name} does not draft in turns with the target.").format(name=name),
            tr("Name drafts of the model, and no mode in which both work at the same time."),
        )
    last = pair.loop.drafter.drafters[-1]
    return None if isinstance(last, LookupDrafter) else last


def _controller(pair: LoadedPair, drafter: Drafter, fixed: Fixed | None) -> Controller:
    if fixed is None:
        return Controller(pair.plan.expected, drafter.costs and drafter.costs.anew())
    return FixedDepth(fixed.depth, fixed.width, fixed.depth * fixed.width)
