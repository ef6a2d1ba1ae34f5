"""Pairs on paper: what a round costs, and how sure and how right a draft is, for the controller.

Everything the controller gets to see is drawn from numbers that the test knows: seconds of a target
forward by its rows, of a drafted level by its width, and at every node a confidence that may or may
not be deserved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from harness import FixedBudget

from engine.backend.round import Budget, Round, Verified
from engine.backend.tree import TokenTree
from engine.events import Interval
from engine.speculative.controller import Controller

NEXT = 0.35
"""Of what a node's children have missed so far, the share that the next one gets."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A target and a draft.

    Attributes:
        verify: rows -> seconds of a target forward.
        level: width -> seconds of a drafted level.
        acceptance: mean chance that a node's likeliest child is accepted, once the node is.
        spread: how much that differs from node to node; higher is less.
        confidence: the draft's probabilities are the true ones to this power; < 1 is overconfident.
        begin: seconds of a round's drafting besides its levels.
    """

    verify: Callable[[int], float]
    level: Callable[[int], float]
    acceptance: float
    spread: float = 3.0
    confidence: float = 1.0
    begin: float = 0.0


@dataclass(slots=True)
class Course:
    """An answer being written by a pair.

    Attributes:
        clock: seconds so far.
        committed: tokens so far.
        rounds: what was done.
    """

    pair: Pair
    rng: np.random.Generator
    clock: float = 0.0
    committed: int = 0
    rounds: int = 0

    def _chances(self, width: int) -> list[float]:
        """True chances of a node's children, the best first."""
        mean, spread = self.pair.acceptance, self.pair.spread
        chance = float(self.rng.beta(mean * spread, (1 - mean) * spread))
        chances, left = [chance], 1 - chance
        for _ in range(width - 1):
            chances.append(min(left * NEXT, chances[-1]))
            left -= chances[-1]
        return chances

    def draft(self, budget: Budget) -> tuple[TokenTree, list[list[float]], int]:
        """The tree, the true chances of every node's children by rank, and the levels drafted."""
        nodes: list[tuple[int, int, float]] = []
        chances: dict[int, list[float]] = {}
        beams, levels = [(0, 0.0)], 0
        while levels < budget.depth:
            levels += 1
            level: list[tuple[int, float]] = []
            for node, score in beams:
                chances[node] = self._chances(budget.width)
                for rank, chance in enumerate(chances[node]):
                    above = score + self.pair.confidence * float(np.log(max(chance, 1e-9)))
                    nodes.append((node, rank, above))
                    level.append((len(nodes), above))
            beams = sorted(level, key=lambda beam: -beam[1])[: budget.width]
            if sum(np.exp(score) for _, score in beams) < budget.floor:
                break
        ranked = sorted(range(len(nodes)), key=lambda node: -nodes[node][2])
        tree = TokenTree.build(0, nodes, most=budget.nodes)
        order = [0, *(node + 1 for node in ranked[: budget.nodes])]
        return tree, [chances.get(node, []) for node in order], levels

    def play(self, controller: Controller, budget: Budget | None) -> Round:
        """One round."""
        start, tree, levels = self.clock, TokenTree.root(0), 0
        chances: list[list[float]] = [[]]
        if budget is not None:
            tree, chances, levels = self.draft(budget)
            self.clock += self.pair.begin + levels * self.pair.level(budget.width)
            tree = controller.prune(tree)
        begin, below = self.clock, tree.children()
        proposing = begin - start
        self.clock += self.pair.verify(len(tree))
        node, accepted, offered = 0, 0, 0
        while below[node]:
            offered += 1
            rank = int(np.searchsorted(np.cumsum(chances[node]), self.rng.random()))
            if rank not in below[node]:
                break
            node, accepted = below[node][rank], accepted + 1
        self.committed += accepted + 1
        self.rounds += 1
        draft, verify = Interval(start, begin) if budget else None, Interval(begin, self.clock)
        done = round_of(tree, draft, verify, accepted=accepted, offered=offered)
        controller.observe(done, proposing)
        return done


def round_of(
    tree: TokenTree, draft: Interval | None, verify: Interval, *, accepted: int, offered: int
) -> Round:
    """A round that committed what was accepted, and the target's own token."""
    verified = Verified((0,), tuple(range(accepted + 1)), accepted, offered)
    return Round(tree, verified, verify, (draft,) if draft else ())


def speed(pair: Pair, make: Callable[[], Controller], tokens: int, answers: int) -> float:
    """Tokens per second of answers of so many tokens, each with a controller of its own."""
    committed, seconds = 0, 0.0
    for number in range(answers):
        course, controller = Course(pair, np.random.default_rng(number)), make()
        controller.begin()
        course.play(controller, None)  # the first token, which never waits for a draft
        course.clock, course.committed = 0.0, 0
        while course.committed < tokens:
            course.play(controller, controller.next_budget(tokens - course.committed))
        committed, seconds = committed + course.committed, seconds + course.clock
    return committed / seconds


def best_fixed(pair: Pair, budgets: Sequence[Budget], rounds: int = 120) -> float:
    """Tokens per second of the fastest of some budgets, plain decoding among them."""
    rates = [1 / pair.verify(1)]
    for budget in budgets:
        course, controller = Course(pair, np.random.default_rng(7)), FixedBudget(budget)
        for _ in range(rounds):
            course.play(controller, budget)
        rates.append(course.committed / course.clock)
    return max(rates)
