"""Drafting in parallel, serially or not at all: a bandit picks whichever is fastest.

Which strategy wins depends on the pair, the machine and the text. Each is tried and judged by the
tokens per second of its own rounds, with forgetting. Most rounds use the best one; the others get a
few trial rounds from time to time, ever less often as long as they lose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from engine.speculative.costs import Mean

_KEEP = 0.97
_TRIAL = 6
"""Rounds of a trial that count. Acceptance makes rounds differ, and earlier trials count as well.
"""
_PLAIN_TRIAL = 2
"""Plain rounds differ little."""
_SETTLING = 1
"""Rounds after a change that do not count: what was drafted before it is still in use."""
_FIRST_PAUSE, _LONGEST_PAUSE = 32, 512
_GAIN_WORTH_IT = 1.03
"""A strategy replaces the best one only if it is this many times as fast."""
_CLEAR_GAIN = 1.5
"""Drafting this many times as fast as plain decoding is not compared with it again."""


class DraftingStrategy(Enum):
    """Ways in which the parallel loop makes a round."""

    PARALLEL = "parallel"
    """The draft works while the target verifies (DuoDecoding)."""
    SERIAL = "serial"
    """The target waits while the draft works."""
    PLAIN = "plain"
    """The target decodes alone."""


@dataclass(slots=True)
class _Record:
    """Results of one strategy, and when it is tried again."""

    tokens: Mean = field(default_factory=lambda: Mean(keep=_KEEP))
    seconds: Mean = field(default_factory=lambda: Mean(keep=_KEEP))
    due: int = 0
    pause: int = _FIRST_PAUSE

    @property
    def rate(self) -> float:
        return (self.tokens.value or 0.0) / self.seconds.value if self.seconds.value else 0.0


class StrategyBandit:
    """Picks the strategy of every round.

    Args:
        allowed: what may be picked, the expected best first.

    Attributes:
        now: strategy of the next round.
        best: the fastest of those that were tried.
    """

    def __init__(self, allowed: Sequence[DraftingStrategy]) -> None:
        self._records = {strategy: _Record() for strategy in allowed}
        self.now = self.best = allowed[0]
        self._settling, self._left = _SETTLING, _TRIAL

    @property
    def rate(self) -> float:
        """Tokens per second of the present strategy; 0 while unknown."""
        return self._records[self.now].rate

    @property
    def gain(self) -> float | None:
        """Speed of the better drafting strategy over plain decoding; None while unknown."""
        plain = self._records.get(DraftingStrategy.PLAIN)
        if plain is None or not plain.rate:
            return None
        return max(each.rate for each in self._records.values() if each is not plain) / plain.rate

    def learn(self, tokens: float, seconds: float, plain: float) -> None:
        """Learn from a round of the present strategy.

        Args:
            tokens: committed by the round, or expected of it from what was known.
            seconds: duration of the round.
            plain: seconds of a target forward over a single token, as far as known.
        """
        if len(self._records) == 1:
            self._count(tokens, seconds)
            return
        for strategy, record in self._records.items():
            record.due -= strategy is not self.now
        if self._settling:
            self._settling -= 1
            return
        self._count(tokens, seconds)
        self._left -= 1
        if self._left <= 0:
            self._judge(plain)

    def _count(self, tokens: float, seconds: float) -> None:
        record = self._records[self.now]
        record.tokens.add(tokens)
        record.seconds.add(seconds)

    def _judge(self, plain: float) -> None:
        """End the present trial; the best strategy may meet its next challenger."""
        if self.now is not self.best:
            tried = self._records[self.now]
            if self._beats(self.now, self.best):
                self._records[self.best].pause = tried.pause = _FIRST_PAUSE
                self._records[self.best].due = _FIRST_PAUSE
                self.best = self.now
            else:
                tried.due = tried.pause
                tried.pause = min(2 * tried.pause, _LONGEST_PAUSE)
        self._turn_to(self._challenger(plain) or self.best)

    def _beats(self, one: DraftingStrategy, other: DraftingStrategy) -> bool:
        """Tell whether one is worth changing to; drafting has to earn its energy, too."""
        slack = 1 / _GAIN_WORTH_IT if one is DraftingStrategy.PLAIN else _GAIN_WORTH_IT
        return self._records[one].rate > slack * self._records[other].rate

    def _challenger(self, plain: float) -> DraftingStrategy | None:
        """The strategy to try next: one that was never tried, or whose pause is over."""
        clear = self._records[self.best].rate * plain >= _CLEAR_GAIN
        due = [
            (record.due, strategy)
            for strategy, record in self._records.items()
            if strategy is not self.best and record.due <= 0
            if not (strategy is DraftingStrategy.PLAIN and clear)
        ]
        return min(due, key=lambda each: each[0])[1] if due else None

    def _turn_to(self, strategy: DraftingStrategy) -> None:
        if strategy is not self.now:
            self._settling = _SETTLING
        self.now = strategy
        short = strategy is DraftingStrategy.PLAIN and strategy is not self.best
        self._left = _PLAIN_TRIAL if short else _TRIAL
