"""The off-switch of both loops: each round is made in the way that has turned out fastest.

Which way wins depends on the pair, the machine and the text. Another one is tried again whenever
what a trial is expected to lose is no more than a small share of the time since the last one: a
clear loser seldom, one that is about as fast at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from engine.speculative.costs import MeanByKind

_FORGET = 0.98
_UNKNOWN = 1.0, 0.0, 1e-9
_TRIALS_SHARE, _COMPARISONS_SHARE = 0.005, 0.003
"""Share of the time that may be lost by trying to draft where it does not pay, and by other ways
than the best, to compare, where it does."""
_LEAST_LOSS = 0.05
"""A round of another way counts as losing at least so many plain rounds: where both seem alike,
nothing would be learnt from one of them for ever."""
_FIRST_TRIAL, _TRIAL = 4, 3
"""Drafting rounds of a trial: the first of them also catches up with what was decoded meanwhile."""
_COMPARE_AFTER, _COMPARISONS = 6, 3
"""After the first drafting rounds come a few plain ones, so that even the first answer can tell the
user what drafting brings."""


class DraftingStrategy(Enum):
    """Ways of making a round."""

    PARALLEL = "parallel"
    """The draft works while the target verifies (DuoDecoding)."""
    SERIAL = "serial"
    """The target waits while the draft works."""
    PLAIN = "plain"
    """The target decodes alone."""


_PLAIN = DraftingStrategy.PLAIN


class OffSwitch:
    """Picks the way of every round; what it has learnt outlives the answer.

    Args:
        ways: of drafting, the expected best first.
        forced: the target never decodes alone.
        expected: tokens and seconds of a round of the first way, where the plan knows.
        worth: drafting has to be so many times as fast as the target alone.

    Attributes:
        now: way of the present round.
        gain: speed of drafting in plain speeds.
        rate: tokens that a second is worth.
        loss: seconds that the next trial of another way is expected to lose.
        credit: seconds that trials may lose; after one that lost more than was thought, below 0.
        trial: drafting rounds that are left of one.
        drafted: rounds that have drafted.
    """

    def __init__(
        self,
        ways: Sequence[DraftingStrategy],
        *,
        forced: bool,
        expected: tuple[float, float] | None = None,
        worth: float = 1.0,
    ) -> None:
        self._means = dict[DraftingStrategy, tuple[MeanByKind, MeanByKind]]()
        for way in ways:
            tokens, seconds, weight = (*expected, 1.0) if expected and way is ways[0] else _UNKNOWN
            means = MeanByKind(tokens, weight, _FORGET), MeanByKind(seconds, weight, _FORGET)
            self._means[way] = means
        self._drafting, *self._untried = ways
        self._forced, self._worth, self._plain = forced, worth, 0.0
        self.now = self._tried = self._drafting
        self._challenged = _PLAIN
        self.gain, self.rate, self.loss, self.credit = worth, 0.0, 0.0, 0.0
        self.trial, self.drafted, self._comparisons_left = _FIRST_TRIAL, 0, _COMPARISONS
        self._on_credit = self._owing = False
        """Whether the round is a trial that is paid from credit, as all but the first are."""

    @property
    def pays(self) -> bool:
        """Tell whether drafting is faster than the target alone."""
        return self.gain >= self._worth

    @property
    def best(self) -> DraftingStrategy:
        """The way that has turned out fastest, whichever is being tried now."""
        return self._drafting if self.pays or self._forced else _PLAIN

    def usual(self, way: DraftingStrategy) -> tuple[float, float]:
        """Return the usual tokens and seconds of a round made in this way; 0 seconds: not known."""
        if way is _PLAIN:
            return 1.0, self._plain
        tokens, seconds = self._means[way]
        return tokens.value, seconds.value

    def rate_of(self, way: DraftingStrategy) -> float:
        """Return the tokens per second of a way; 0 while unknown."""
        tokens, seconds = self.usual(way)
        return tokens / seconds if seconds else 0.0

    def pick(self, *, comparable: bool = True) -> DraftingStrategy:
        """Return the way of the coming round.

        Args:
            comparable: whether a round of another way would tell anything where drafting pays.
        """
        if not self.trial and self._untried:
            self._tried, self.trial = self._untried.pop(0), _FIRST_TRIAL
        best, other = self.best, self._challenger()
        self.now, self._on_credit = best, False
        first = self.pays and not self._forced and self.drafted >= _COMPARE_AFTER
        if self.trial:
            self.now, self._on_credit = self._tried, self._owing and self._tried is not best
        elif first and self._comparisons_left:
            self.now, self._comparisons_left = _PLAIN, self._comparisons_left - 1
        elif other and self.credit >= self.loss and (comparable or not self.pays):
            self.now, self._challenged, self._on_credit = other, other, True
            if other is not _PLAIN:
                self._tried, self.trial, self._owing = other, _TRIAL, True
        return self.now

    def _challenger(self) -> DraftingStrategy | None:
        """Return the way that is tried next: in turn, where there are two; None: there is none."""
        if self.best is _PLAIN:
            return self._drafting
        if len(self._means) == 1:
            return None if self._forced else _PLAIN
        others = [way for way in (*self._means, _PLAIN) if way is not self._drafting]
        others = others[:-1] if self._forced else others
        last = self._challenged if len(others) > 1 else None
        return next((way for way in others if way is not last), None)

    def weigh(self, plain: float) -> None:
        """Compare the ways by all that is known; `plain`: seconds of a round without drafts."""
        self._plain = plain
        if len(self._means) > 1:
            self._drafting = max(self._means, key=self.rate_of)  # the first, while none is known
        rate = self.rate_of(self._drafting)
        if not plain or not rate:
            return
        self.gain = rate * plain
        self.rate = rate if self._forced else max(rate, 1 / plain)
        tokens, seconds = self.usual(other := self._challenger() or _PLAIN)
        rounds = 1 if other is _PLAIN else _TRIAL
        self.loss = rounds * self._lost(tokens, seconds)
        if self.pays:
            self.credit = min(self.credit, 2 * self.loss)

    def _lost(self, tokens: float, seconds: float) -> float:
        """Return the seconds that a round of another way than the best counts as losing."""
        return max(seconds - tokens / self.rate, _LEAST_LOSS * self._plain)

    def observe(
        self, plain: float, drafted: tuple[float, float] | None = None, *, usual: bool = True
    ) -> None:
        """Learn from a round of the present way: it has earned what trials may lose, or was one.

        Args:
            plain: seconds of a round of the target alone.
            drafted: tokens and seconds of a round that drafts, or what to expect of it.
            usual: whether it tells what such rounds are like.
        """
        seconds, lost = plain, self.loss
        if drafted:
            tokens, seconds = drafted
            lost = self._lost(tokens, seconds) if self.rate else 0.0
            self.drafted += 1
            self.trial = max(self.trial - 1, 0)
            if usual:
                for mean, value in zip(self._means[self.now], drafted, strict=True):
                    mean.add(value)
        elif not self.pays:  # what rests is known less and less
            for mean in self.means_by_kind.values():
                mean.fade()
        share = _COMPARISONS_SHARE if self.pays else _TRIALS_SHARE
        self.credit += -lost if self._on_credit else share * seconds
        self._on_credit = False
        self.weigh(plain)

    def try_again(self) -> None:
        """Draft for some rounds at no price: what is known of drafting may not hold any more."""
        self._tried, self.trial = self._drafting, _TRIAL
        self._untried = [way for way in self._untried if not self.rate_of(way)]

    @property
    def means_by_kind(self) -> dict[str, MeanByKind]:
        """Its means by name."""
        return {
            f"{'' if way is DraftingStrategy.SERIAL else 'ahead_'}{name}": mean
            for way, means in self._means.items()
            for name, mean in zip(("tokens", "seconds"), means, strict=True)
        }
