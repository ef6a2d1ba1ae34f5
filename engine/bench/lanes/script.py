"""What a draft would say, with dice: which of its candidates is right at each position."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log

import numpy as np

from engine.backend.round import Candidates

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

    def rates(self, stretches: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Of stretches of the trace with equally many tokens."""
        marks = np.linspace(0, self.tokens[-1], stretches + 1)
        return np.diff(marks) / np.diff(np.interp(marks, (0, *self.tokens), (0, *self.seconds)))
