"""Whole answers in virtual time: what a controller makes of a pair, and what fixed depths would.

A text has at every position a chance that the draft is right there, and a draw that settles it, so
that all controllers write the same text. Drafts are chains; seconds come from numbers that the test
knows, times a little noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log
from random import Random

from harness import FixedBudget
from simulated_pairs import round_of

from engine.decode.controller import Controller
from engine.decode.tree import TokenTree, chain
from engine.draft.drafter import Budget
from engine.events import Interval
from engine.plan.expectation import BUCKETS, Expectation

AHEAD = 40
"""Tokens of a text beyond those that an answer needs."""
DEEPEST = 10
NOISE = 0.03
OPENING = 1.3
"""How much slower the first forward behind a prompt is."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A pair of a target and a draft, in seconds.

    Attributes:
        verify: seconds of a target forward by its rows; in between they are interpolated.
        level: of a drafted token.
        begin: of a round's drafting besides.
        acceptance: mean chance that a drafted token is right.
        spread: how much the draft is sure of at times and unsure of at others: parameters of the
            beta distribution add up to it; None: every token has the same chance.
    """

    verify: tuple[tuple[int, float],...]
    level: float
    begin: float
    acceptance: float
    spread: float | None = None

    def rows(self, count: int) -> float:
        """Seconds of a target forward over so many rows."""
        for (low, before), (high, after) in pairwise(self.verify):
            if count <= high:
                break
        return before + (after - before) / (high - low) * (count - low)

    def expectation(self, slower: float = 1.0, acceptance: float | None = None) -> Expectation:
        """What a plan would say that takes the target for faster or slower than it is."""
        return Expectation(
            tuple(self.rows(size) * slower for size in BUCKETS),
            (self.level / slower,),
            self.acceptance if acceptance is None else acceptance,
            nodes=6,
            depth=4,
        )


@dataclass(frozen=True, slots=True)
class Text:
    """At every position, what the draft gives its token, and whether it is right."""

    chances: Sequence[float]
    right: Sequence[bool]

    @classmethod
    def of(cls, pair: Timed, tokens: int, seed: int) -> Text:
        """A text that is long enough for an answer of so many tokens."""
        rng = Random(seed)
        mean, spread = pair.acceptance, pair.spread
        chances = [
            mean if spread is None else rng.betavariate(mean * spread, (1 - mean) * spread)
            for _ in range(tokens + AHEAD)
        ]
        return cls(chances, [rng.random() < chance for chance in chances])


def write(pair: Timed, text: Text, tokens: int, controller: Controller, seed: int = 0) -> float:
    """Seconds from the first token of an answer to its last."""
    noise = _noise(seed)
    controller.begin()
    _play(pair, text, 0, controller, None, noise, OPENING)
    position, seconds = 1, 0.0
    while position < tokens:
        budget = controller.next_budget(tokens - position - 1)
        if budget is not None and not budget.depth: budget = None
        committed, spent = _play(pair, text, position, controller, budget, noise)
        position += committed
        seconds += spent
    return seconds


def _noise(seed: int) -> Iterator[float]:
    rng = Random(seed)
    while True:
        yield 1 + NOISE * abs(rng.gauss(0, 1))


def _play(
    pair: Timed,
    text: Text,
    position: int,
    controller: Controller,
    budget: Budget | None,
    noise: Iterator[float],
    slower: float = 1.0,
) -> tuple[int, float]:
    """One round: tokens committed, seconds."""
    tree, proposing = TokenTree.root(0), 0.0
    if budget is not None:
        scores, score = [], 0.0
        while len(scores) < budget.depth:
            score += log(max(text.chances[position + len(scores)], 1e-6))
            scores.append(score)
            if score < log(max(budget.floor, 1e-9)):
                break
        proposing = (pair.begin + len(scores) * pair.level) * next(noise)
        tree = controller.prune(chain(0, range(1, len(scores) + 1), scores).best(budget.nodes))
    verify = pair.rows(len(tree)) * next(noise) * slower
    accepted = 0
    while accepted < tree.drafted and text.right[position + accepted]:
        accepted += 1
    done = round_of(
        tree,
        Interval(0.0, proposing) if budget else None,
        Interval(proposing, proposing + verify),
        accepted=accepted,
        offered=min(accepted + 1, tree.drafted),
    )
    controller.observe(done, proposing)
    return accepted + 1, proposing + verify


@dataclass(frozen=True, slots=True)
class Comparison:
    """Seconds of the same answers, in turn: as the controller likes, plainly, at the best depth."""

    auto: Sequence[float]
    plain: float
    best: float
    depth: int

    @property
    def share(self) -> float:
        """Of the speed of the best fixed depth, 0 among them, that the controller reaches."""
        return self.best / sum(self.auto)


def compare(
    pair: Timed, tokens: int, answers: int, make: Callable[[], Controller], seed: int = 1
) -> Comparison:
    """Write some answers in a row with a controller that goes on learning, and at fixed depths."""
    texts = [Text.of(pair, tokens, seed + number) for number in range(answers)]

    def seconds(controller: Controller) -> list[float]:
        return [
            write(pair, text, tokens, controller, number) for number, text in enumerate(texts)
        ]

    if (pair,tokens,answers,seed) not in FX:
        FX[pair,tokens,answers,seed] = {
        depth: sum(seconds(FixedBudget(Budget(depth, depth, 1))))
        for depth in range(DEEPEST + 1)
        }
    fixed=FX[pair,tokens,answers,seed]
    best = min(fixed, key=fixed.__getitem__)
    return Comparison(seconds(make()), fixed[0], fixed[best], best)
FX={}
