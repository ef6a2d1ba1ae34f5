"""How large a tree is drafted in turns with the target: its levels, and how wide they are.

Drafting goes a level deeper where that promises more than its time is worth.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from engine.backend.round import Budget
from engine.plan.plan import BUCKETS, Expectation
from engine.speculative.acceptance import Acceptance
from engine.speculative.costs import DraftCosts, Mean, MeanByKind, VerifyCosts

MAX_DEPTH = 10
MOST_NODES = BUCKETS[-1] - 1
"""Most drafted nodes of one verification."""
_SLACK, _SURER = 2, 1.05
"""Up to so many levels beyond the usual depth are drafted, while the path is at least so many times
as likely to be accepted as a usual path of that depth."""
_LESS_SURE, _USUAL_KNOWN = 0.95, 12
"""Before the usual depth no path ends that is nearly as likely as a usual one. This holds after so
many drafting rounds: earlier that depth is more the plan's than measured."""

_USUAL = (0.6, 0.8, 0.93, 1.0)
"""Share of the accepted tokens that trees of so many children bring."""
_EXPLORE = 16
"""One tree of so many is a step wider than it would have to be."""
_REFRESH = 4
"""The choice is made again after so many trees."""
_WORTH = 1.01
"""A wider tree has to be so much faster: breadth that is not kept only keeps drafting going."""


class Widths:
    """Chooses the tree width that pays, by the rank among its siblings of every kept node.

    Attributes:
        now: width of the tree that was asked for last.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = tuple(sizes)
        self._shares = [Mean(share, 2.0) for share in _USUAL[: len(self._sizes)]]
        self._best = len(self._sizes) - 1
        self._asked = self._best
        self._trees = 0

    @property
    def means(self) -> dict[str, Mean]:
        """Its means by name."""
        return {
            f"width {size}": share for size, share in zip(self._sizes, self._shares, strict=True)
        }

    @property
    def now(self) -> int:
        """Width of the tree that was asked for last."""
        return self._sizes[self._asked]

    def next(self, drafted: int) -> int:
        """Return the width to ask for, after so many trees."""
        explore = drafted % _EXPLORE == _EXPLORE - 1
        self._asked = min(self._best + explore, len(self._sizes) - 1)
        return self.now

    def learn(self, parents: Sequence[int], chances: Sequence[float]) -> None:
        """Learn what narrower trees would have lacked, from some of the trees.

        Args:
            parents: of the kept nodes, siblings in the order of their chances; the root is first.
            chances: of the nodes behind the root.
        """
        if self._trees > _REFRESH and self._trees % 2:
            return
        children, needed = [0] * len(parents), [0] * len(parents)
        sums = [0.0] * (self.now + 1)
        for node in range(1, len(parents)):
            above = parents[node]
            children[above] += 1
            need = needed[node] = max(needed[above], children[above])
            sums[min(need, self.now)] += chances[node - 1]
        total, had, width = sum(sums), 0.0, 0
        if not total:
            return
        full = self._shares[self._asked].value or 1.0
        for place in range(self._asked + 1):
            had += sum(sums[width + 1 : self._sizes[place] + 1])
            width = self._sizes[place]
            self._shares[place].add(full * had / total)

    def choose(
        self, costs: DraftCosts, levels: int, tokens: float | None, seconds: float | None
    ) -> None:
        """Choose the width of most tokens per second.

        Args:
            costs: of drafting.
            levels: of the last tree.
            tokens, seconds: of usual rounds.
        """
        self._trees += 1
        if not tokens or not seconds or (self._trees > _REFRESH and self._trees % _REFRESH):
            return
        depth, best = max(levels, 1), 0.0
        share = self._shares[self._best].value or 1.0
        now = costs.draft_seconds(depth, self._sizes[self._best])
        chosen = self._best
        for place, size in enumerate(self._sizes):
            more = (self._shares[place].value or 0.0) / share
            spent = seconds + costs.draft_seconds(depth, size) - now
            rate = (1 + (tokens - 1) * more) / spent
            if rate > best * _WORTH:
                best, chosen = rate, place
        self._best = chosen


class TreeBudgets:
    """Chooses the budget of every tree; what it has learnt outlives the answer.

    Args:
        expected: of the pair, before anything is measured.
        costs: what drafting takes.
        verify: seconds of a target forward.
        acceptance: how much of what is drafted is accepted.

    Attributes:
        widths: how wide trees are.
        kept: rows of a round.
    """

    def __init__(
        self,
        expected: Expectation,
        costs: DraftCosts,
        verify: VerifyCosts,
        acceptance: Acceptance,
    ) -> None:
        self._costs, self._verify, self._acceptance = costs, verify, acceptance
        self._deep = expected.depth
        self.widths = Widths(costs.widths)
        self.kept = MeanByKind((expected.nodes + 1) / 2, 2.0)

    def next(self, most_depth: int, drafted: int, rate: float) -> Budget:
        """Return the budget of a round.

        Args:
            most_depth: longest path that could still be committed.
            drafted: rounds that have drafted so far.
            rate: tokens that a second is worth.
        """
        width, goes_on = self.widths.next(drafted), self._acceptance.goes_on.value
        usual = self._usual_depth(goes_on, width)
        worth = rate * self._level_seconds(usual, width) / max(goes_on, 0.05)
        if drafted >= _USUAL_KNOWN:
            worth = min(worth, _LESS_SURE * goes_on ** (usual - 1))
        floor = max(worth, _SURER * goes_on**usual) / self._acceptance.trust
        return Budget(self._nodes, min(usual + _SLACK, MAX_DEPTH, most_depth), width, floor)

    def trial(self, most_depth: int, drafted: int) -> Budget:
        """Return the budget of a trial: what no tree has nobody learns the worth of."""
        width = self.widths.next(drafted)
        levels, plain = self._costs.draft_seconds, self._verify.of(1)
        depth = self._deep
        while depth > 1 and levels(depth, width) > levels(1, width) + plain:
            depth -= 1
        return Budget(self._nodes, min(depth, most_depth), width)

    @property
    def _nodes(self) -> int:
        return min(2 * _bucket(self.kept.value), BUCKETS[-1]) - 1

    def _usual_depth(self, goes_on: float, width: int) -> int:
        """Return the depth of the fastest chains, given the recent acceptance."""

        def rate(depth: int, tokens: float) -> float:
            return tokens / (self._costs.draft_seconds(depth, width) + self._verify.of(depth + 1))

        return max(_chains(goes_on), key=lambda chain: rate(*chain))[0]

    def _level_seconds(self, depth: int, width: int) -> float:
        """Return the seconds of a level below so many: to draft it and verify one more node.

        The cost of a row is the mean of the next three: T(n) often goes up in steps.
        """
        rows = max(round(self.kept.value) - 1, 1)
        row = max(self._verify.of(rows + 3) - self._verify.of(rows), 0.0) / 3
        levels = self._costs.draft_seconds
        return levels(depth + 1, width) - levels(depth, width) + row


def best_round(costs: DraftCosts, verify: VerifyCosts, acceptance: float) -> tuple[float, float]:
    """Return tokens and seconds of the fastest round, which drafts a chain or nothing."""
    rounds = [(1.0, verify.of(1))]
    rounds += [
        (tokens, costs.draft_seconds(depth, costs.widths[-1]) + verify.of(depth + 1))
        for depth, tokens in _chains(acceptance)
    ]
    return max(rounds, key=lambda each: each[0] / each[1])


def _bucket(rows: float) -> int:
    """Return the smallest bucket that holds so many rows."""
    return next((size for size in BUCKETS if size >= rows), BUCKETS[-1])


def _chains(acceptance: float) -> list[tuple[int, float]]:
    """Return (depth, tokens of a round) of every possible chain."""
    return list(enumerate(accumulate(acceptance**level for level in range(MAX_DEPTH + 1))))[1:]
