"""How to decode with a draft lane: drafting ahead, in turns, or not at all, as measured.

Which of them is fastest depends on the pair, the machine and the text. Each is tried, and judged by
the tokens per second of its own rounds, with forgetting. Most rounds are spent with the best; the
others get a few of them again from time to time, ever more seldom as long as they lose.
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
_ALONE_TRIAL = 2
"""Rounds of the target alone differ little."""
_SETTLING = 1
"""Rounds behind a change that do not count: what was drafted before lingers."""
_FIRST_PAUSE, _LONGEST_PAUSE = 32, 512
_GAIN_WORTH_IT = 1.03
"""So much faster has a manner to be for a change."""
_CLEAR_GAIN = 1.5
"""Drafting that is so much faster is not compared with the target alone time and again."""


class Manner(Enum):
    """How rounds come about."""

    AHEAD = "ahead"
    """The draft works while the target verifies (DuoDecoding)."""
    TURNS = "turns"
    """The draft works while the target waits for it."""
    ALONE = "alone"
    """The target alone."""


@dataclass(slots=True)
class _Record:
    """What one manner has brought, and when it is tried again."""

    tokens: Mean = field(default_factory=lambda: Mean(keep=_KEEP))
    seconds: Mean = field(default_factory=lambda: Mean(keep=_KEEP))
    due: int = 0
    pause: int = _FIRST_PAUSE

    @property
    def rate(self) -> float:
        return (self.tokens.value or 0.0) / self.seconds.value if self.seconds.value else 0.0


class Manners:
    """Chooses the manner of every round.

    Args:
        allowed: what may be chosen, the expected best first.

    Attributes:
        now: of the next round.
        best: of those that were tried.
    """

    def __init__(self, allowed: Sequence[Manner]) -> None:
        self._records = {manner: _Record() for manner in allowed}
        self.now = self.best = allowed[0]
        self._settling, self._left = _SETTLING, _TRIAL
        self._settled = False  # whether all have had their first trial

    @property
    def rate(self) -> float:
        """Tokens per second of the present manner; 0 while they are not known."""
        return self._records[self.now].rate

    @property
    def gain(self) -> float | None:
        """Of the better drafting manner over the target alone; None while it is not known."""
        alone = self._records.get(Manner.ALONE)
        if alone is None or not alone.rate:
            return None
        return max(each.rate for each in self._records.values() if each is not alone) / alone.rate

    def learn(self, tokens: float, seconds: float, alone: float) -> None:
        """A round in the present manner is over.

        Args:
            tokens: that it brought, or was to bring by what was known.
            seconds: it took.
            alone: seconds of a forward of the target over a single token, as far as is known.
        """
        if len(self._records) == 1:
            self._count(tokens, seconds)
            return
        for manner, record in self._records.items():
            record.due -= manner is not self.now
        if self._settling:
            self._settling -= 1
            return
        self._count(tokens, seconds)
        self._left -= 1
        if self._left <= 0:
            self._judge(alone)

    def _count(self, tokens: float, seconds: float) -> None:
        record = self._records[self.now]
        record.tokens.add(tokens)
        record.seconds.add(seconds)

    def _judge(self, alone: float) -> None:
        """The present trial is over, or the best one may be challenged."""
        if self.now is not self.best:
            tried = self._records[self.now]
            if self._beats(self.now, self.best):
                self._records[self.best].pause = tried.pause = _FIRST_PAUSE
                self._records[self.best].due = _FIRST_PAUSE
                self.best = self.now
            else:
                tried.due = tried.pause
                tried.pause = min(2 * tried.pause, _LONGEST_PAUSE)
        self._turn_to(self._challenger(alone) or self.best)

    def _beats(self, one: Manner, other: Manner) -> bool:
        """Whether one is worth changing to; drafting has to be worth its energy, too."""
        slack = 1 / _GAIN_WORTH_IT if one is Manner.ALONE else _GAIN_WORTH_IT
        return self._records[one].rate > slack * self._records[other].rate

    def _challenger(self, alone: float) -> Manner | None:
        """Who is tried next: one that was never tried, or whose pause is over."""
        clear = self._records[self.best].rate * alone >= _CLEAR_GAIN
        due = [
            (record.due, manner)
            for manner, record in self._records.items()
            if manner is not self.best and record.due <= 0
            if not (manner is Manner.ALONE and clear)
        ]
        return min(due, key=lambda each: each[0])[1] if due else None

    def _turn_to(self, manner: Manner) -> None:
        if manner is not self.now:
            self._settling = _SETTLING
        self.now = manner
        self._left = _ALONE_TRIAL if manner is Manner.ALONE and manner is not self.best else _TRIAL
