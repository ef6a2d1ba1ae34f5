"""Whole answers in virtual time: what a controller makes of a pair, and what fixed depths would.

A text has at every position a chance that the draft is right there, and a draw that settles it, so
that all controllers write the same text. Drafts are chains. The seconds are numbers that the test
knows; a controller measures them with noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import cycle, pairwise
from math import log
from random import Random

from harness import FixedBudget
from simulated_pairs import round_of

from engine.backend.round import Budget
from engine.backend.tree import TokenTree, chain
from engine.events import Interval
from engine.model.text.kinds_of_text import TextKind
from engine.plan.plan import BUCKETS, Expectation
from engine.speculative.controller import Controller

AHEAD = 16
"""Tokens of a text beyond those that an answer needs."""
DEEPEST = 10
OPENING = 1.3
"""How much slower the first forward behind a prompt is."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A pair of a target and a draft, in seconds.

    Attributes:
        verify: rows and seconds of target forwards; in between they are interpolated.
        level: of a drafted token.
        begin: of a round's drafting besides.
        acceptance: mean chance that a drafted token is right.
        spread: how alike these chances are, parameters of a beta distribution that add up to it;
            None: all are the same.
    """

    verify: tuple[tuple[int, float], ...]
    level: float
    begin: float
    acceptance: float
    spread: float | None = None

    def rows(self, count: int) -> float:
        """Seconds of a target forward over so many rows."""
        for (low, before), (high, after) in pairwise(self.verify):
            if count <= high:
                return before + (after - before) / (high - low) * (count - low)
        raise ValueError(count)

    def expectation(self, slower: float = 1.0, worse: float = 1.0) -> Expectation:
        """What a plan would say that is wrong by some factors."""
        return Expectation(
            tuple(self.rows(size) * slower for size in BUCKETS),
            (self.level / slower,),
            self.acceptance * worse,
            nodes=6,
            depth=4,
        )


@dataclass(frozen=True, slots=True)
class Text:
    """At every position, what the draft gives its token, and whether it is right.

    Attributes:
        kinds: of the text at every position, which a controller is told; empty: it is not told.
    """

    chances: Sequence[float]
    right: Sequence[bool]
    kinds: Sequence[TextKind] = ()

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

    @classmethod
    def alternating(
        cls, pair: Timed, means: Mapping[TextKind, float], stretch: int, tokens: int, seed: int
    ) -> Text:
        """A text of stretches of kinds in turn, about so many tokens each, that are accepted so."""
        rng, chances, right, kinds = Random(seed), list[float](), list[bool](), list[TextKind]()
        for kind in cycle(means):
            length = max(round(rng.expovariate(1 / stretch)), 4)
            part = cls.of(replace(pair, acceptance=means[kind]), length, rng.getrandbits(32))
            chances += part.chances[:length]
            right += part.right[:length]
            kinds += [kind] * length
            if len(kinds) >= tokens + AHEAD:
                return cls(chances, right, kinds)
        raise ValueError(means)


def calm(seed: int) -> Iterator[float]:
    """Measurements are right but for some percent."""
    rng = Random(seed)
    while True:
        yield 1 + 0.03 * abs(rng.gauss(0, 1))


def busy(seed: int) -> Iterator[float]:
    """Another program takes half of the machine for a while, and moments of all of it."""
    rng, slower = Random(seed), 1.0
    while True:
        if rng.random() < 0.03:
            slower = 1.8 if slower == 1.0 else 1.0
        yield slower * (1 + 0.1 * abs(rng.gauss(0, 1))) * (4.0 if rng.random() < 0.01 else 1.0)


def write(
    pair: Timed, text: Text, tokens: int, controller: Controller, noise: Iterator[float]
) -> float:
    """Seconds from the first token of an answer to its last, were there no noise."""
    controller.begin()
    _play(pair, text, 0, controller, None, noise, OPENING)
    position, seconds = 1, 0.0
    while position < tokens:
        if text.kinds:
            controller.turn_to(text.kinds[position])
        budget = controller.next_budget(tokens - position - 1)
        committed, spent = _play(pair, text, position, controller, budget, noise)
        position += committed
        seconds += spent
    return seconds


def _play(
    pair: Timed,
    text: Text,
    position: int,
    controller: Controller,
    budget: Budget | None,
    noise: Iterator[float],
    slower: float = 1.0,
) -> tuple[int, float]:
    """One round: tokens committed, seconds without noise."""
    tree, proposing = TokenTree.root(0), 0.0
    if budget is not None:
        scores: list[float] = []
        score = 0.0
        while len(scores) < budget.depth and (not scores or score >= log(budget.floor or 1e-9)):
            score += log(max(text.chances[position + len(scores)], 1e-6))
            scores.append(score)
        proposing = pair.begin + len(scores) * pair.level
        tree = controller.prune(chain(0, range(1, len(scores) + 1), scores).best(budget.nodes))
    verify = pair.rows(len(tree)) * slower
    accepted = 0
    while accepted < tree.drafted and text.right[position + accepted]:
        accepted += 1
    start = proposing * next(noise)
    done = round_of(
        tree,
        Interval(0.0, start) if budget else None,
        Interval(start, start + verify * next(noise)),
        accepted=accepted,
        offered=min(accepted + 1, tree.drafted),
    )
    controller.observe(done, start)
    return accepted + 1, proposing + verify


def texts(pair: Timed, tokens: int, answers: int) -> list[Text]:
    """What is written in every comparison."""
    return [Text.of(pair, tokens, number) for number in range(answers)]


@lru_cache
def at_fixed_depths(pair: Timed, tokens: int, answers: int) -> tuple[float, ...]:
    """Seconds of some answers in a row at depths 1, 2, 3, ..."""
    return tuple(
        sum(
            write(pair, text, tokens, FixedBudget(Budget(depth, depth, 1)), calm(0))
            for text in texts(pair, tokens, answers)
        )
        for depth in range(1, DEEPEST + 1)
    )


def plainly(pair: Timed, tokens: int, answers: int) -> float:
    """Seconds of the target alone."""
    return pair.rows(1) * (tokens - 1) * answers
