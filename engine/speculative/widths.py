"""How wide a drafted tree should be: nodes of a level, and children of a node."""

from __future__ import annotations

from collections.abc import Sequence

from engine.speculative.costs import Costs, Mean

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
        self, level: Costs, levels: int, tokens: float | None, seconds: float | None
    ) -> None:
        """Choose the width of most tokens per second.

        Args:
            level: seconds of a level by its width.
            levels: of the last tree.
            tokens, seconds: of usual rounds.
        """
        self._trees += 1
        if not tokens or not seconds or (self._trees > _REFRESH and self._trees % _REFRESH):
            return
        depth, best = max(levels, 1), 0.0
        share, now = self._shares[self._best].value or 1.0, level.of(self._sizes[self._best])
        chosen = self._best
        for place, size in enumerate(self._sizes):
            more = (self._shares[place].value or 0.0) / share
            rate = (1 + (tokens - 1) * more) / (seconds + (level.of(size) - now) * depth)
            if rate > best * _WORTH:
                best, chosen = rate, place
        self._best = chosen
