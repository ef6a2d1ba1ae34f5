"""The online controller: how much to draft next, from what was measured.

It begins with what the plan expects, and fits the cost of a target forward by its rows, the cost of
a drafted level by its width and how far the draft's probabilities can be trusted, all with
forgetting. A second is worth what this answer's rounds bring in one: drafting goes a level deeper,
and a node is verified, where it promises more than its time is worth. In `auto` the controller
stops drafting when that does not pay, says so, and tries again from time to time.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from math import exp, log

from engine.decode.decoding import Round
from engine.decode.estimates import Costs, Mean
from engine.decode.tree import TokenTree
from engine.decode.widths import Widths
from engine.draft.drafter import Budget
from engine.language import tr
from engine.plan.expectation import (
    BUCKETS,
    DEPTH,
    NODES,
    USUAL_ACCEPTANCE,
    USUAL_LEVELS,
    USUAL_VERIFY,
    WIDTHS,
    Expectation,
)

MAX_DEPTH = 10
_SLACK = 2
"""Levels beyond those that pay in a usual round; in others the floor ends drafting before."""

_FORGET_RATE, _FORGET_FAST = 0.95, 0.85
_GAIN_WORTH_IT = 1.03
_CLEAR_GAIN = 1.5
_BASELINE_EVERY = 48
"""One round of so many is plain in `auto` where drafting gains less than a clear gain."""
_BASELINES = 3
"""Plain rounds, one behind a few that draft, before that."""
_FIRST_PAUSE, _LONGEST_PAUSE = 16, 256
_TRIAL = 5
"""Drafting rounds before drafting is judged, and again after each pause."""
_SHORT_TRIAL = 2
"""The same once drafting has turned out not to pay."""


class Controller:
    """Chooses budgets for one loaded pair; what it has learnt outlives the answer.

    Args:
        expected: of the pair, before anything is measured.
        forced: always draft, as the user asked for this mode or draft by name.
    """

    def __init__(self, expected: Expectation | None = None, *, forced: bool = False) -> None:
        self._forced = forced
        verify = expected.verify if expected else USUAL_VERIFY
        levels = expected.levels if expected else USUAL_LEVELS
        acceptance = expected.acceptance if expected else USUAL_ACCEPTANCE
        self._verify = Costs(BUCKETS, verify, seconds=expected is not None)
        self._level = Costs(WIDTHS[: len(levels)], levels, seconds=expected is not None)
        self._widths = Widths(WIDTHS[: len(levels)])
        self._first = (expected.nodes, expected.depth) if expected else (NODES, DEPTH)
        self._next = Mean(acceptance, 6.0)
        """Chance that the path goes on below a node that was accepted."""
        self._trust = Mean(1.0, 8.0)
        """What is accepted, to what the draft's probabilities promise."""
        self._kept = Mean(6.0, 2.0)
        self._tokens, self._seconds = Mean(keep=_FORGET_RATE), Mean(keep=_FORGET_RATE)
        if expected is not None:
            tokens, seconds = _best_round(expected)
            self._tokens = Mean(tokens, 3.0, _FORGET_RATE)
            self._seconds = Mean(seconds, 3.0, _FORGET_RATE)
        self._late_tokens, self._late_seconds = Mean(keep=_FORGET_FAST), Mean(keep=_FORGET_FAST)
        self._rate = self._rate_now()
        self._levels = 0
        self._expected = 0.0
        self._drafted = self._since_plain = self._baselines = 0
        self._opening = True
        self._trial, self._pause, self._next_pause = _TRIAL, 0, _FIRST_PAUSE
        self._lost = self._lost_before = 0
        """Answers in a row in which drafting did not pay; those before this one."""
        self._plain_seconds = 0.0
        self.fallback_reason: str | None = None

    def begin(self) -> None:
        """A new answer: what did not pay in the last one may pay in this one, if it gets long.

        The longer it has not paid, answer after answer, the longer an answer has to be.
        """
        self._plain_seconds, self._opening = 0.0, True
        self._lost_before = self._lost
        self._pause = min(_FIRST_PAUSE << self._lost - 1, _LONGEST_PAUSE) if self._lost else 0
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
        if most_depth < 1 or (not self._forced and self._is_plain()):
            return None
        width = self._widths.next(self._drafted)
        worth, goes_on = self._level_worth(width), self._next.value or 0.0
        if self._drafted:
            nodes = min(2 * _bucket(self._kept.value or 0.0), BUCKETS[-1]) - 1
            depth = _usual_depth(worth, goes_on)
        else:
            nodes, depth = self._first
        floor = worth / max(goes_on * (self._trust.value or 1.0), 0.05)
        return Budget(nodes, min(depth, most_depth), width, floor)

    def _is_plain(self) -> bool:
        """Whether the next round is the target's alone, to recover or to compare with."""
        if self._pause:
            return True
        # A plan may be far from the truth, for small models by a factor: first it is measured.
        known = self._baselines >= _BASELINES
        clear = known and self._rate * self._verify.of(1) >= _CLEAR_GAIN
        due = _BASELINE_EVERY if known else _TRIAL - 1
        return self._since_plain >= due and not clear

    def _level_worth(self, width: int) -> float:
        """Tokens that the time of a level is worth: to draft it, and to verify one more node."""
        rows = _bucket(self._kept.value or 0.0)
        row = max(self._verify.of(2 * rows) - self._verify.of(rows), 0.0) / rows
        return self._rate * (self._level.of(width) + row)

    def _rate_now(self) -> float:
        """Tokens that a second is worth; 0 as long as nothing is known."""
        seconds = self._seconds.value
        drafting = (self._tokens.value or 0.0) / seconds if seconds else 0.0
        plain = self._verify.of(1)
        return max(drafting, 1 / plain) if drafting and plain and not self._forced else drafting

    def prune(self, tree: TokenTree) -> TokenTree:
        """Keep as many of the best nodes as their chance of acceptance is worth their cost."""
        self._levels = max(tree.depths)
        trust, rate = self._trust.value or 1.0, self._rate
        chances = [exp(score) for score in tree.scores[1:]]
        tokens = list(accumulate([min(trust * chance, 1.0) for chance in chances], initial=1.0))
        drafting = self._level.of(self._widths.now) * self._levels
        best, best_worth, most = 0, float("-inf"), tree.drafted + 1
        for rows in (*BUCKETS[: bisect_left(BUCKETS, most)], most):
            if rows == 1 and self._forced and tree.drafted:
                continue
            cost = self._verify.of(rows)
            if rate:
                worth = tokens[rows - 1] - rate * cost
            else:
                worth = tokens[rows - 1] / (drafting + cost) if cost else float(rows)
            if worth > best_worth:
                best, best_worth = rows - 1, worth
        self._expected = sum(chances[:best])
        kept = tree.best(best)
        self._widths.learn(kept.parents, chances)
        return kept

    def observe(self, done: Round, proposing: float) -> None:
        """Learn from a finished round; `proposing` is the seconds its tree took to draft."""
        opening, self._opening = self._opening, False
        if not opening or not self._baselines:
            self._verify.add(done.drafted + 1, done.verify.seconds)
        if not done.drafting:
            if not opening:  # behind a prompt a forward is slower than others
                self._since_plain = 0
                self._baselines += 1
            self._pause = max(self._pause - 1, 0)
            self._plain_seconds += done.verify.seconds
            return
        self._drafted += 1
        self._since_plain += 1
        if self._levels:
            self._level.add(self._widths.now, proposing / self._levels)
        for accepted in done.accepted_by_depth:
            self._next.add(accepted)
        if self._expected > 0.05:
            self._trust.add(min(done.accepted / self._expected, 3.0))
        self._kept.add(done.drafted + 1)
        # What was to be expected varies less from round to round than what came of it.
        tokens = 1 + (self._trust.value or 1.0) * self._expected
        seconds = proposing + done.verify.seconds
        for mean in (self._tokens, self._late_tokens):
            mean.add(tokens)
        for mean in (self._seconds, self._late_seconds):
            mean.add(seconds)
        self._rate = self._rate_now()
        self._widths.choose(self._level, self._levels, self._tokens.value, self._seconds.value)
        self._trial = max(self._trial - 1, 0)
        if not self._forced and not self._trial:
            self._judge()

    def _judge(self) -> None:
        plain, seconds = self._verify.of(1), self._late_seconds.value
        if not plain or not seconds:
            return
        gain = (self._late_tokens.value or 0.0) / seconds * plain
        if gain >= _GAIN_WORTH_IT:
            self._next_pause, self.fallback_reason = _FIRST_PAUSE, None
            self._lost = self._lost_before = 0
            return
        self._lost = self._lost_before + 1
        self.fallback_reason = tr(
            "Drafting would give {gain:.2f} times the plain speed here, "
            "so the target decodes alone."
        ).format(gain=gain)
        self._pause, self._trial = self._next_pause, _SHORT_TRIAL
        self._next_pause = min(self._next_pause * 2, _LONGEST_PAUSE)


def _usual_depth(worth: float, goes_on: float) -> int:
    """The levels that pay in a usual round, and some more for one whose draft is sure.

    Args:
        worth: tokens that a level has to bring.
        goes_on: chance that a path which was accepted so far goes on.
    """
    if not worth or goes_on >= 1:
        return MAX_DEPTH
    pay = int(log(worth) / log(goes_on)) if goes_on > 0 and worth < goes_on else 1
    return min(pay + _SLACK, MAX_DEPTH)


def _bucket(rows: float) -> int:
    """The smallest bucket that holds so many rows."""
    return BUCKETS[min(bisect_left(BUCKETS, rows), len(BUCKETS) - 1)]


def _best_round(expected: Expectation) -> tuple[float, float]:
    """Tokens and seconds of the rounds that would bring most of them, with chains."""
    best, tokens, reach = (1.0, expected.verify[0]), 1.0, 1.0
    for depth in range(1, MAX_DEPTH + 1):
        reach *= expected.acceptance
        tokens += reach
        verify = expected.verify[BUCKETS.index(_bucket(depth + 1))]
        seconds = depth * expected.levels[-1] + verify
        if tokens / seconds > best[0] / best[1]:
            best = tokens, seconds
    return best
