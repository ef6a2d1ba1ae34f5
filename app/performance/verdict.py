"""The verdict on an answer's drafting: measured, with its uncertainty, never changed. No Qt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from math import sqrt
from statistics import median

from engine.events import BUSY_CPU, RoundFinished

FEWEST = 64
"""Tokens of an answer below which nothing is said about its speed."""
_ENOUGH_PLAIN = 12
"""Rounds without a draft that make a speed."""
_MOST_PLAIN = 400
_LEAST_SPREAD = 0.02
"""Relative uncertainty that every measured speed has."""
_PAYS = 1.05
"""Speed relative to that without a draft from which on drafting is said to help."""
_HELD = 50.0
"""Percent of the CPU in other programs' hands from which on a speed says nothing of the draft."""


@dataclass(frozen=True, slots=True)
class SpeedRange:
    """Tokens per second, and between which values they really were, as far as was measured."""

    low: float
    speed: float
    high: float

    @classmethod
    def around(cls, speed: float, spread: float) -> SpeedRange:
        """Return the range of a speed with a relative uncertainty."""
        spread = min(max(spread, _LEAST_SPREAD), 0.9)
        return cls(speed * (1 - spread), speed, speed * (1 + spread))


class Outcome(StrEnum):
    """The verdict on an answer with a draft against the same without."""

    FASTER = "faster"
    ALIKE = "alike"
    SLOWER = "slower"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class SpeedVerdict:
    """The comparison of one answer with the target alone; it is kept with the answer.

    Attributes:
        speed: of the answer.
        plain: of the same model without its draft, loaded alike, on the same devices, about as far
            into the context, within the same minutes; None: not measured.
        most: tokens that a verification brought, which no draft can be faster by.
        others_cpu: percent of the CPU that other programs used meanwhile.
    """

    speed: SpeedRange
    plain: SpeedRange | None = None
    most: float | None = None
    others_cpu: float | None = None

    @property
    def ratio(self) -> float | None:
        """Speed relative to that without a draft."""
        if self.plain is None:
            return None
        ratio = self.speed.speed / self.plain.speed
        return ratio if self.most is None else min(ratio, self.most)

    @property
    def outcome(self) -> Outcome:
        """Faster or slower only where the two ranges do not overlap."""
        ratio, plain = self.ratio, self.plain
        held = self.others_cpu is not None and self.others_cpu >= _HELD
        if ratio is None or plain is None or held:
            return Outcome.UNKNOWN
        if self.speed.low > plain.high and ratio >= _PAYS:
            return Outcome.FASTER
        return Outcome.SLOWER if self.speed.high < plain.low else Outcome.ALIKE

    @property
    def disturbed(self) -> bool:
        """True if other programs held much of the CPU."""
        return self.others_cpu is not None and self.others_cpu >= BUSY_CPU

    @property
    def packed(self) -> str:
        """Return it as the history keeps it."""
        return json.dumps(asdict(self))

    @classmethod
    def unpacked(cls, text: str) -> SpeedVerdict | None:
        """Return one that the history has kept; None where it is not readable."""
        try:
            told = json.loads(text)
            plain = told["plain"]
            return cls(
                SpeedRange(**told["speed"]),
                None if plain is None else SpeedRange(**plain),
                told["most"],
                told["others_cpu"],
            )
        except (ValueError, KeyError, TypeError):
            return None


@dataclass(slots=True)
class AnswerPace:
    """Sums over the rounds of an answer, for its speed and that of its rounds without a draft.

    The uncertainty is twice the standard error: of a ratio of two sums for the whole, of a median
    for the rounds without a draft.
    """

    tokens: int = 0
    rounds: int = 0
    context: int = 0
    """Tokens in the context after the last round."""
    _plain: list[float] = field(default_factory=list)
    _last: tuple[int, float] | None = None
    _seconds: float = 0.0
    _count: int = 0
    _squares: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Sums of count x count, count x seconds, seconds x seconds."""

    def add(self, done: RoundFinished) -> None:
        """Count a round."""
        self.tokens += done.committed
        self.rounds += done.index > 0
        self.context = done.context_used or self.context
        before, self._last = self._last, (done.index, done.at)
        if before is None or before[0] + 1 != done.index:
            return
        took, count = done.at - before[1], done.committed
        self._seconds, self._count = self._seconds + took, self._count + count
        cc, ct, tt = self._squares
        self._squares = (cc + count * count, ct + count * took, tt + took * took)
        if not done.drafted and not done.drafting and count == 1:
            self._plain.append(took)

    @property
    def speed(self) -> SpeedRange | None:
        """The answer's own speed; None where too few tokens were written."""
        if self.tokens < FEWEST or self._seconds <= 0:
            return None
        speed = self._count / self._seconds
        cc, ct, tt = self._squares
        error = sqrt(max(cc - 2 * speed * ct + speed * speed * tt, 0.0)) / self._seconds
        return SpeedRange.around(speed, 2 * error / speed if speed else 0.0)

    @property
    def plain(self) -> SpeedRange | None:
        """Speed of the rounds without a draft; None where there are too few of them."""
        return range_of(self._plain[-_MOST_PLAIN:])

    @property
    def most(self) -> float | None:
        """Tokens that a verification brought."""
        return (self.tokens - 1) / self.rounds if self.rounds else None


def range_of(seconds: Sequence[float]) -> SpeedRange | None:
    """The speed of rounds of one token each, from how long they took; None of too few."""
    if len(seconds) < _ENOUGH_PLAIN:
        return None
    typical = median(seconds)
    if typical <= 0:
        return None
    deviation = 1.4826 * median(abs(each - typical) for each in seconds)
    return SpeedRange.around(1 / typical, 2 * 1.2533 * deviation / typical / sqrt(len(seconds)))
