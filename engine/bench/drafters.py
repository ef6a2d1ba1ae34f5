"""One target and everything that can draft for it: the same prompts, in turns, in one run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from time import perf_counter

from engine.answering import Answer
from engine.bench.prompts import BenchPrompt
from engine.bench.scripted_draft import FixedDepth
from engine.decode.controller import Controller
from engine.decode.tree import TokenTree
from engine.draft.combined import CombinedDrafter
from engine.draft.drafter import Budget, DraftContext, Drafter
from engine.draft.lookup import LookupDrafter
from engine.errors import UserFixable
from engine.events import Event, Finished, FinishReason
from engine.language import tr
from engine.loading.load import LoadedPair
from engine.request import ChatRequest, Message, Role, SamplingParams

PLAIN, LOOKUP = "plain", "lookup"


@dataclass(slots=True)
class Timed:
    """A drafter, and how long a level of its trees takes, overhead included."""

    drafter: Drafter
    seconds: float = 0.0
    levels: int = 0

    @property
    def name(self) -> str:
        """Of the drafter."""
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
        if levels := depth(tree):
            self.seconds += perf_counter() - begun
            self.levels += levels
        return tree

    def observe(self, committed: Sequence[int]) -> None:
        """See `Drafter`."""
        self.drafter.observe(committed)


def depth(tree: TokenTree) -> int:
    """Levels below the root."""
    depths = [0]
    for parent in tree.parents[1:]:
        depths.append(depths[parent] + 1)
    return max(depths)


@dataclass(slots=True)
class Way:
    """A way to write answers.

    Attributes:
        pair: target and drafter.
        timed: the drafter of `pair` alone with its clock; None of plain and combined ways.
    """

    pair: LoadedPair
    timed: Timed | None = None
    results: list[Written] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Written:
    """One prompt's answers of one way: the median speed, and what is the same in all of them.

    `token_ids`: None where they differ.
    """

    category: str
    tokens_per_s: float
    acceptance_length: float | None
    drafting_rounds: int
    ended: bool
    token_ids: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Figures:
    """Of a way, over the prompts of a category or over all.

    Attributes:
        tokens_per_s: median over prompts; `speedup`: median of the ratios to plain.
        acceptance_length: tokens per round with a draft, by rounds; None: nothing was drafted.
        exact: whether every answer was the target's own, token for token.
    """

    prompts: int
    tokens_per_s: float
    speedup: float
    acceptance_length: float | None
    exact: bool


@dataclass(frozen=True, slots=True)
class Fixed:
    """Every round drafts the same: `depth` levels of `width` tokens."""

    depth: int
    width: int = 1

    def controller(self) -> Controller:
        """One that does so."""
        return FixedDepth(self.depth, self.width, self.depth * self.width)


def ways_of(pairs: Sequence[tuple[str, LoadedPair]], fixed: Fixed | None = None) -> dict[str, Way]:
    """Plain, lookup, each draft alone, and each with lookup.

    The first two with a target that feeds no head, if there is such a pair.

    Args:
        pairs: the same target loaded with each of its drafts, and their names.
        fixed: what every round drafts; None: as the controller likes, which may be not at all.

    Raises:
        UserFixable: one of them does not draft in turns.
    """
    alone = min((pair for _, pair in pairs), key=lambda pair: pair.target.feeds_a_head)
    ways = {PLAIN: Way(replace(alone, drafter=None, lane=None))}
    ways[LOOKUP] = Way(_with(alone, fixed, LookupDrafter()))
    for name, pair in pairs:
        if not isinstance(pair.drafter, CombinedDrafter):
            raise UserFixable(
                tr("{name} does not draft in turns with the target.").format(name=name),
                tr("Name drafts of the model, and no mode in which both work at the same time."),
            )
        model = pair.drafter.drafters[-1]
        timed = Timed(model)
        ways[name] = Way(_with(pair, fixed, timed), timed)
        ways[f"{name} + {LOOKUP}"] = Way(_with(pair, fixed, LookupDrafter(), model))
    return ways


def _with(pair: LoadedPair, fixed: Fixed | None, *drafters: Drafter) -> LoadedPair:
    """With a controller of its own: what one way has learnt is not true of another."""
    controller = Controller(pair.placing.expected) if fixed is None else fixed.controller()
    return replace(pair, drafter=CombinedDrafter(drafters), controller=controller)


def measure_ways(
    ways: dict[str, Way],
    prompts: Sequence[BenchPrompt],
    sampling: SamplingParams,
    *,
    max_tokens: int,
    repeat: int,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> None:
    """Let every way answer every prompt `repeat` times, forwards and backwards in turn.

    Prompts that do not fit, and answers too short to time, are left out of all ways.
    """
    for number, prompt in enumerate(prompts):
        progress(number, len(prompts))
        request = ChatRequest(
            f"bench-{number}", (Message(Role.USER, prompt.text),), sampling, max_tokens
        )
        written: defaultdict[str, list[Finished]] = defaultdict(list)
        try:
            for turn in range(repeat):
                for name in [*ways] if turn % 2 == 0 else [*reversed(ways)]:
                    written[name].append(_answer(ways[name].pair, request))
        except UserFixable:
            continue
        if any(not each.stats.tokens_per_s for runs in written.values() for each in runs):
            continue
        for name, way in ways.items():
            way.results.append(_written(prompt.category, written[name]))


def figures(ways: dict[str, Way]) -> dict[str, dict[str, Figures]]:
    """By category ("all" at the end) and way."""
    plain = ways[PLAIN].results
    categories = [*dict.fromkeys(one.category for one in plain), None]
    found: dict[str, dict[str, Figures]] = {}
    for category in categories:
        places = [at for at, one in enumerate(plain) if category in {None, one.category}]
        if places:
            found[category or "all"] = {
                name: _figures([(way.results[at], plain[at]) for at in places])
                for name, way in ways.items()
            }
    return found


def draft_cost(way: Way, plain: Figures) -> float | None:
    """The papers' c: seconds of a level of drafting, as a share of the target's per token."""
    timed = way.timed
    if timed is None or not timed.levels:
        return None
    return timed.seconds / timed.levels * plain.tokens_per_s


def _figures(both: list[tuple[Written, Written]]) -> Figures:
    known = [
        (one.acceptance_length, one.drafting_rounds)
        for one, _ in both
        if one.acceptance_length is not None
    ]
    rounds = sum(count for _, count in known)
    return Figures(
        prompts=len(both),
        tokens_per_s=median(one.tokens_per_s for one, _ in both),
        speedup=median(one.tokens_per_s / plain.tokens_per_s for one, plain in both),
        acceptance_length=sum(length * n for length, n in known) / rounds if rounds else None,
        exact=all(one.token_ids == plain.token_ids is not None for one, plain in both),
    )


def _written(category: str, runs: list[Finished]) -> Written:
    stats = runs[0].stats
    return Written(
        category,
        median(run.stats.tokens_per_s or 0.0 for run in runs),
        stats.acceptance_length,
        stats.rounds - stats.plain_rounds,
        runs[0].reason is FinishReason.STOP,
        runs[0].token_ids if len({run.token_ids for run in runs}) == 1 else None,
    )


def _answer(pair: LoadedPair, request: ChatRequest) -> Finished:
    finished: list[Finished] = []

    def listen(event: Event) -> None:
        if isinstance(event, Finished):
            finished.append(event)

    Answer(pair, request, listen, lambda: False).write()
    return finished[0]
