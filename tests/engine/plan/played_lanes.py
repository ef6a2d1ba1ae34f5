"""The parallel loop in virtual time, with a trace in the place of models: what plans expect of it.

The speculation and its decisions are the real ones. As a program it prints
engine/plan/both_lanes.py anew, for when the decisions have changed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from engine.backend.round import Candidates
from engine.backend.tree import TokenTree
from engine.plan.plan import BUCKETS
from engine.plan.throughput import NEXT_CHOICE
from engine.speculative.controller import best_part
from engine.speculative.costs import Mean
from engine.speculative.draft_tree import DraftPace, DraftTree
from engine.speculative.pacing import LaneCosts, pace, worth_waiting

CANDIDATES = 4
"""Of every node, as many as a real draft ranks."""

MISSED = -1
"""Stands in a trace where none of the candidates is right."""


@dataclass(frozen=True, slots=True)
class ChanceScript:
    """Chances of a draft that knows them.

    Attributes:
        first: that its likeliest token is right.
        second: that its next one is, where all likelier ones were wrong.
    """

    first: float
    second: float

    @property
    def chances(self) -> tuple[float, ...]:
        """Of the candidates, best first."""
        missed = 1 - self.first
        others = (
            missed * self.second * (1 - self.second) ** rank for rank in range(CANDIDATES - 1)
        )
        return self.first, *others

    @property
    def candidates(self) -> Candidates:
        """As the draft would give them; the token of one is its rank."""
        return [(rank, log(chance)) for rank, chance in enumerate(self.chances) if chance]

    def trace(self, tokens: int, seed: int) -> list[int]:
        """The rank of the right token at every position, or MISSED."""
        edges = np.cumsum(self.chances)
        ranks = np.searchsorted(edges, np.random.default_rng(seed).random(tokens), side="right")
        return [rank if rank < CANDIDATES else MISSED for rank in ranks.tolist()]


@dataclass(frozen=True, slots=True)
class Times:
    """What both lanes need, in any unit of time.

    Attributes:
        verify: of a target forward by its rows.
        step: of a step of the draft by its nodes.
    """

    verify: Callable[[int], float]
    step: Callable[[int], float]

    @classmethod
    def flat(cls, cost: float, breadth: float) -> Times:
        """A verification takes 1 for any number of rows.

        Args:
            cost: of a step with one node.
            breadth: of every further one, as a share of that.
        """
        return cls(lambda _: 1.0, lambda nodes: cost * (1 + breadth * (nodes - 1)))


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a trace.

    Attributes:
        tokens: committed up to the end of each round.
        seconds: when each round ended.
    """

    tokens: tuple[int, ...]
    seconds: tuple[float, ...]

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return self.tokens[-1] / self.seconds[-1]


_MOST = BUCKETS[-1] - 1
"""Drafted nodes of a verification."""
_FORGET = 0.95
_WRONG = CANDIDATES
"""Stands for a token that the draft does not think of."""


def simulate_trace(
    trace: Sequence[int], candidates: Candidates, times: Times, *, overlap: bool = True
) -> Played:
    """Play the parallel loop until the trace ends.

    Args:
        trace: the rank of the right token among the draft's candidates at every position, or
            MISSED.
        candidates: tokens 0, 1, ... with the logs of the chances that the draft gives them.
        times: of both lanes.
        overlap: whether the draft goes on while the target verifies.
    """
    return _Loop(trace, candidates, times, overlap=overlap).play()


class _Loop:
    """Both lanes; `now` is when the target became idle, or an event of the draft lane after it."""

    def __init__(
        self, trace: Sequence[int], candidates: Candidates, times: Times, *, overlap: bool
    ) -> None:
        self._right = [rank if rank != MISSED else _WRONG for rank in trace]
        self._candidates, self._times, self._overlap = candidates, times, overlap
        self._speculation = DraftTree(_WRONG)
        self._pace = DraftPace()
        self._now = self._begun = 0.0
        self._ends: float | None = None
        self._goes_on = Mean(0.6, 6.0)
        self._tokens, self._seconds = Mean(keep=_FORGET), Mean(keep=_FORGET)

    def play(self) -> Played:
        """Round after round."""
        position, tokens, seconds = 0, list[int](), list[float]()
        last = len(self._right) - _MOST - 1
        while position < last:
            began, lanes = self._now, self._lanes()
            self._pace = pace(lanes, overlap=self._overlap)
            self._wait(lanes)
            rate = lanes.rate or 1 / lanes.verify(1)
            tree = best_part(self._speculation.tree(_MOST), lanes.verify, rate, lanes.trust)
            self._verify(len(tree))
            path = self._path(tree, position)
            self._commit(self._right[position : position + len(path)])
            position += len(path)
            self._tokens.add(len(path))
            self._seconds.add(self._now - began)
            tokens.append(position)
            seconds.append(self._now)
        return Played(tuple(tokens), tuple(seconds))

    def _lanes(self) -> LaneCosts:
        seconds = self._seconds.value
        rate = (self._tokens.value or 0.0) / seconds if seconds else 0.0
        goes_on = self._goes_on.value or 0.0
        return LaneCosts(self._times.verify, self._times.step, rate=rate, goes_on=goes_on)

    def _wait(self, lanes: LaneCosts) -> None:
        """Let the target be idle as long as the draft's step is worth it."""
        while self._begin() and self._ends is not None:
            promise, left = self._speculation.promise(self._pace), self._ends - self._now
            if not worth_waiting(lanes, promise, left, overlap=self._overlap):
                return
            self._finish()

    def _verify(self, rows: int) -> None:
        """The target is busy; the draft goes on meanwhile if it may."""
        free = self._now + self._times.verify(rows)
        while self._overlap and self._begin() and self._ends is not None and self._ends <= free:
            self._finish()
        self._now = free

    def _begin(self) -> bool:
        """Let the draft compute, if it does not; whether it does."""
        if self._ends is None:
            step = self._speculation.begin_step(self._pace)
            if step is not None:
                self._begun, self._ends = self._now, self._now + self._times.step(len(step.nodes))
        return self._ends is not None

    def _finish(self) -> None:
        """The step has ended; all its nodes have the same candidates."""
        step = self._speculation.step
        if step is not None and self._ends is not None:
            self._now = self._ends
            found = [self._candidates] * len(step.nodes)
            self._speculation.end_step(found, self._now - self._begun)
            self._ends = None

    def _path(self, tree: TokenTree, position: int) -> list[int]:
        """The nodes of the tree after which a token is committed: the root, and accepted ones."""
        children, path = tree.children(), [0]
        while below := children[path[-1]]:
            node = below.get(self._right[position + len(path) - 1])
            self._goes_on.add(node is not None)
            if node is None:
                break
            path.append(node)
        return path

    def _commit(self, tokens: Sequence[int]) -> None:
        """Move the root; a step that nothing can come of any more is given up."""
        self._speculation.advance(tokens)
        self._speculation.path.clear()
        step = self._speculation.step
        if step is not None and step.hopeless:
            self._speculation.end_step([], self._now - self._begun)
            self._ends = None


FIRST = (0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.96)
COSTS = (0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.33, 0.5, 0.75, 1.0, 1.5, 2.0)
BREADTHS = (0.0, 0.1, 0.3, 1.0)
TOKENS, SEED = 1500, 1

_HEAD = '''"""Tokens that the parallel loop commits in the time of a verification, as played.

Written by tests/engine/plan/played_lanes.py, in virtual time, for verifications that take as long
for any number of rows; `engine.plan.throughput.parallel` reads it.
"""

from __future__ import annotations

'''


def tokens_per_verification(first: float, cost: float, breadth: float) -> float:
    """Of the parallel loop; see `Times.flat`.

    Args:
        first: chance that the draft's likeliest token is right.
        cost: of a step of the draft, in verifications.
        breadth: of a further node of a step, in steps.
    """
    script = ChanceScript(first, NEXT_CHOICE)
    trace = script.trace(TOKENS, SEED)
    return simulate_trace(trace, script.candidates, Times.flat(cost, breadth)).rate


def module() -> str:
    """The text of the module."""
    lines = [
        f"FIRST = {FIRST}",
        '"""Chances that a draft\'s likeliest token is right."""',
        f"COSTS = {COSTS}",
        '"""Of a step of the draft, in verifications."""',
        f"BREADTHS = {BREADTHS}",
        '"""Of a further node of a step, in steps."""',
        "",
        "TOKENS = (",
    ]
    for breadth in BREADTHS:
        lines.append("    (")
        for first in FIRST:
            row = [tokens_per_verification(first, cost, breadth) for cost in COSTS]
            lines.append(f"        ({_listed(row)}),")
        lines.append("    ),")
    return _HEAD + "\n".join([*lines, ")", '"""By breadth, chance and cost."""', ""])


def _listed(row: Sequence[float]) -> str:
    return ", ".join(f"{tokens:.3f}" for tokens in row)


if __name__ == "__main__":
    sys.stdout.write(module())
