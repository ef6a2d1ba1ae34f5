"""The online controller: how much to draft next, from what was measured.

It fits the cost of a target forward by its rows, the cost of a drafting level and the acceptance
by depth, all with forgetting, and maximises committed tokens per second. In `auto` it stops
drafting when that does not pay, says so, and tries again from time to time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from math import exp

from engine.decode.decoding import Round
from engine.decode.tree import TokenTree
from engine.draft.drafter import Budget
from engine.language import tr

BUCKETS = (1, 2, 4, 8, 16, 32, 64)
"""Rows of a target forward whose cost is told apart (and, on accelerators, graphs kept)."""

MAX_DEPTH = 10
WIDTH = 4
START_NODES, START_DEPTH = 7, 4

_FORGET = 0.97
_FORGET_FAST = 0.85
_GAIN_WORTH_IT = 1.03
_BASELINE, _BASELINE_EVERY = 2, 48
"""So many rounds of so many are plain in `auto`: what drafting is compared with stays fresh."""
_FIRST_PAUSE, _LONGEST_PAUSE = 16, 256
_TRIAL = 5
"""Drafting rounds before drafting is judged, and again after each pause."""
_SHORT_TRIAL = 2
"""The same once drafting has turned out not to pay."""


class _Average:
    """A mean that forgets; None before there is anything to know."""

    __slots__ = ("_keep", "_total", "_weight", "value")

    def __init__(self, prior: float = 0.0, weight: float = 0.0, keep: float = _FORGET) -> None:
        self._total, self._weight, self._keep = prior * weight, weight, keep
        self.value = prior if weight else None

    def add(self, value: float) -> None:
        self._total = self._total * self._keep + value
        self._weight = self._weight * self._keep + 1
        self.value = self._total / self._weight


class Controller:
    """Chooses budgets for one loaded pair; what it has learnt outlives the answer.

    Args:
        forced: always draft, as the user asked for this mode or draft by name.
    """

    def __init__(self, *, forced: bool = False) -> None:
        self._forced = forced
        self._verify = [_Average() for _ in BUCKETS]
        self._level = _Average()
        self._accepted = [_Average(0.6, 4.0) for _ in range(MAX_DEPTH)]
        self._calibration = _Average(1.0, 8.0)
        self._plain = _Average(keep=_FORGET_FAST)
        self._rounds = 0
        self._drafting_tokens = _Average(keep=_FORGET_FAST)
        self._drafting_seconds = _Average(keep=_FORGET_FAST)
        self._trial = _TRIAL
        self._pause = 0
        self._plain_seconds = 0.0
        self._next_pause = _FIRST_PAUSE
        self._levels = 0
        self._expected = 0.0
        self.fallback_reason: str | None = None

    def begin(self) -> None:
        """A new answer: what did not pay in the last one may pay in this one, if it gets long."""
        self._plain_seconds = 0.0
        self._pause = _FIRST_PAUSE if self.fallback_reason else 0
        self._next_pause = 2 * _FIRST_PAUSE
        self._trial = _SHORT_TRIAL if self.fallback_reason else _TRIAL

    def worth_beginning(self, seconds: float) -> bool:
        """Whether a drafter that needs `seconds` to catch up should do so now.

        A short answer would never earn them back. So, as one rents skis until the rent paid
        equals their price, the target decodes alone until it has spent as long.
        """
        return self._forced or self._plain_seconds >= seconds

    def next_budget(self, most_depth: int) -> Budget | None:
        """The budget of the next round, or None to decode plainly.

        Args:
            most_depth: longest path that could still be committed.
        """
        if most_depth < 1:
            return None
        if not self._forced and (self._pause or self._rounds % _BASELINE_EVERY < _BASELINE):
            return None
        depth, rate = self._outlook()
        # A level whose chance of acceptance is below what its time brings elsewhere is left out.
        floor = rate * (self._level.value or 0.0)
        return Budget(START_NODES * 2 + 1, min(depth, most_depth), WIDTH, floor)

    def prune(self, tree: TokenTree) -> TokenTree:
        """Keep as many of the best nodes as their chance of acceptance is worth their cost."""
        self._levels = max(tree.depths)
        trust = self._calibration.value or 1.0
        drafting = (self._level.value or 0.0) * self._levels
        chances = [exp(score) for score in tree.scores[1:]]
        trusted = [min(trust * chance, 1.0) for chance in chances]
        tokens = list(accumulate(trusted, initial=1.0))
        best, best_rate, most = 0, 0.0, tree.drafted
        for rows in (*BUCKETS[: bisect_right(BUCKETS, most)], most + 1):
            if rows == 1 and self._forced:
                continue
            cost = drafting + self._verify_cost(rows)
            rate = tokens[rows - 1] / cost if cost else float(rows - 1)
            if rate > best_rate:
                best, best_rate = rows - 1, rate
        self._expected = sum(chances[:best])
        return tree.best(best)

    def observe(self, done: Round, proposing: float) -> None:
        """Learn from a finished round; `proposing` is the seconds its tree took to draft."""
        self._rounds += 1
        self._verify[_bucket(done.drafted + 1)].add(done.verify.seconds)
        if done.draft is None:
            self._pause = max(self._pause - 1, 0)
            self._plain_seconds += done.verify.seconds
            self._plain.add(done.verify.seconds)
            return
        if self._levels:
            self._level.add(proposing / self._levels)
        for depth, accepted in enumerate(done.accepted_by_depth[:MAX_DEPTH]):
            self._accepted[depth].add(accepted)
        if self._expected > 0.05:
            self._calibration.add(min(done.accepted / self._expected, 3.0))
        self._drafting_tokens.add(len(done.tokens))
        self._drafting_seconds.add(proposing + done.verify.seconds)
        self._trial = max(self._trial - 1, 0)
        if not self._forced and not self._trial:
            self._judge()

    def _judge(self) -> None:
        plain, seconds = self._plain.value, self._drafting_seconds.value
        if plain is None or not seconds:
            return
        gain = (self._drafting_tokens.value or 0.0) / seconds * plain
        if gain >= _GAIN_WORTH_IT:
            self._next_pause, self.fallback_reason = _FIRST_PAUSE, None
            return
        self.fallback_reason = tr(
            "Drafting would give {gain:.2f} times the plain speed here, "
            "so the target decodes alone."
        ).format(gain=gain)
        self._pause, self._trial = self._next_pause, _SHORT_TRIAL
        self._next_pause = min(self._next_pause * 2, _LONGEST_PAUSE)

    def _outlook(self) -> tuple[int, float]:
        """The depth that promises most tokens per second, and how many."""
        level = self._level.value
        if level is None:
            return START_DEPTH, 0.0
        verify = self._verify_cost(START_NODES + 1)
        best, best_rate, expected, reach = 1, 0.0, 1.0, 1.0
        for depth, average in enumerate(self._accepted, 1):
            reach *= average.value or 0.0
            expected += reach
            cost = level * depth + verify
            if not cost or expected / cost <= best_rate:
                break  # every level brings less than the one above it
            best, best_rate = depth, expected / cost
        return best, best_rate

    def _verify_cost(self, rows: int) -> float:
        """Seconds of a target forward over `rows`; of an unknown size the best is hoped.

        Hope makes it try the size once, and then it is known.
        """
        index = _bucket(rows)
        return self._verify[index].value or self._hoped(BUCKETS[index])

    def _hoped(self, wanted: int) -> float:
        known = [(size, avg.value) for size, avg in zip(BUCKETS, self._verify, strict=True)]
        known = [(size, seconds) for size, seconds in known if seconds]
        if not known:
            return 0.0
        size, seconds = min(known, key=lambda pair: abs(pair[0] - wanted))
        return (seconds or 0.0) * min(wanted / size, 1.0)


def _bucket(rows: int) -> int:
    """Index of the smallest bucket that holds so many rows."""
    return min(bisect_left(BUCKETS, rows), len(BUCKETS) - 1)
