"""The controller of the serial loop: how much to draft next, from what was measured.

Drafting goes a level deeper where that promises more than its time is worth.

In `auto` rounds draft, or the target decodes alone, whichever is faster by these numbers. The other
way is tried again whenever what a trial is expected to lose is no more than a small share of the
time since the last one: a clear loser seldom, one that is about as fast at once.
"""

from __future__ import annotations

from itertools import accumulate
from math import exp

from engine.backend.round import Budget, Round
from engine.backend.tree import TokenTree
from engine.plan.plan import BUCKETS, USUAL, WIDTHS, Expectation
from engine.speculative.controller import Controller, best_part, fallback_words, promised
from engine.speculative.costs import Costs, Learnt, Mean, MeanByKind, VerifyCosts, capped
from engine.speculative.reading import Reading
from engine.speculative.widths import Widths

MAX_DEPTH = 10
_MOST = BUCKETS[-1] - 1
"""Nodes of a tree at most."""
_SLACK, _SURER = 2, 1.05
"""Up to so many levels beyond the usual depth are drafted, while the path is at least so many times
as likely to be accepted as a usual path of that depth."""
_LESS_SURE, _USUAL_KNOWN = 0.95, 12
"""Before the usual depth no path ends that is nearly as likely as a usual one. This holds after so
many drafting rounds: earlier that depth is more the plan's than measured."""
_TRIALS_SHARE, _COMPARISONS_SHARE = 0.005, 0.003
"""Share of the time that may be lost by trying to draft where it does not pay, and by decoding
plainly, to compare, where it does."""
_LEAST_LOSS = 0.05
"""A round of the other way counts as losing at least so many plain rounds: where both seem alike,
nothing would be learnt from one of them for ever."""
_FIRST_TRIAL, _TRIAL = 4, 3
"""Drafting rounds of a trial: the first of them also catches up with what was decoded meanwhile."""
_FEW = 6.0
"""The first measurements of drafting are not capped: too little is known to call one a hiccup."""
_COMPARE_AFTER, _COMPARISONS = 6, 3
"""After the first drafting rounds come a few plain ones, so that even the first answer can tell the
user what drafting brings."""
_FORGET_RATE = 0.98
PARTLY_READ = "partly read"
"""Text whose beginning the draft has not read counts as a kind of its own."""


class SerialController(Controller):
    """Chooses budgets for one loaded pair; what it has learnt outlives the answer.

    Args:
        expected: of the pair, before anything is measured.
        forced: always draft, as the user asked for this mode or draft by name.
    """

    def __init__(self, expected: Expectation | None = None, *, forced: bool = False) -> None:
        expected = expected or USUAL
        widths = WIDTHS[: len(expected.levels)]
        self._verify: VerifyCosts
        levels = Costs(widths, expected.levels, seconds=True, weight=4.0)
        verify = VerifyCosts(BUCKETS, expected.verify)
        super().__init__(verify, levels, expected.acceptance, forced=forced)
        self._widths = Widths(widths)
        self._begin = Mean(0.0, 1.0)
        """Seconds of a round's drafting besides its levels."""
        self._deep = expected.depth
        self._kept = MeanByKind((expected.nodes + 1) / 2, 2.0)
        """Rows of a round."""
        tokens, seconds = _best_round(expected)
        self._tokens = MeanByKind(tokens, 1.0, _FORGET_RATE)
        self._seconds = MeanByKind(seconds, 1.0, _FORGET_RATE)
        """Mean seconds of a round that drafts; `_tokens` has its tokens."""
        self._levels, self._rows = 0, 1
        """Levels and rows that the draft gives the present round; lookup adds rows of its own."""
        self._drafted = 0
        self._opening = True
        self._following = self._exploring = False
        self._trial = _FIRST_TRIAL
        self._comparisons_left = _COMPARISONS
        self._credit = 0.0
        """Seconds that trials may lose; after one that lost more than was thought, fewer than 0."""
        self._on_credit = self._owing = False
        """Whether the round is a trial that is paid from it, as all but the first are."""
        self._reading = Reading(expected.levels[-1] / widths[-1])
        self._ready, self._partly = True, False
        """Whether the draft has read enough to draft, and whether it has not read all."""
        self._weigh()

    def begin(self) -> None:
        """Start a new answer."""
        super().begin()
        self._reading.begin()
        self._ready, self._opening, self._following = True, True, False
        self._partly = False
        self._turn()

    def to_read(self, missing: int, remaining: int) -> int:
        """Return how many tokens the draft should read now, the last of those that are missing.

        Where reading all of them does not pay, that is their end, and the rest once the answer is
        long enough, see `reading`. Where drafting is forced at least the end is read at once.

        Args:
            missing: tokens that the draft has to read before it drafts as well as it can.
            remaining: tokens that may still be written.
        """
        reading, plain = self._reading, self._verify.of(1)
        self._ready = reading.begun or not missing
        if not missing or not self._verify.measured:
            return 0
        if not reading.begun:
            self._set_partly(False)
            saves = reading.saves(remaining, plain, self._gain)
            count = reading.to_begin(missing, saves, plain, forced=self._forced)
            self._set_partly(count < missing)
            if count and (self._forced or self._worth_a_trial(count)):
                return count
            if count == missing:
                return 0
        if self._pays or not reading.is_due(missing, remaining, plain):
            return 0
        self._set_partly(False)
        self._trial = max(self._trial, int(self._pays) * _TRIAL)
        if self._forced or self._pays:
            return missing
        self._set_partly(True)
        return 0

    def has_read(self, tokens: int, seconds: float) -> None:
        """Learn how long the draft took to read so many tokens."""
        self._reading.learn(tokens, seconds)
        self._ready, self._following = True, False

    def _worth_a_trial(self, tokens: int) -> bool:
        """Tell whether drafting pays, or may be tried at the price of reading so many tokens."""
        price = self._loss + self._reading.price(tokens)
        return self._pays or self._trial > 0 or self._credit >= price

    def _set_partly(self, partly: bool) -> None:
        if partly is not self._partly:
            self._partly = partly
            self._turn()

    def next_budget(self, most_depth: int) -> Budget | None:
        """Return the budget of the next round, or None to decode plainly.

        Args:
            most_depth: longest path that could still be committed.
        """
        self._on_credit = False
        if most_depth < 1 or not self._ready or (not self._forced and self._is_plain()):
            return None
        width = self._widths.next(self._drafted)
        worth, goes_on = self._level_worth(width), self._acceptance.goes_on.value
        nodes = min(2 * _bucket(self._kept.value), BUCKETS[-1]) - 1
        usual = self._usual_depth(goes_on, width)
        depth = min(usual + _SLACK, MAX_DEPTH)
        worth /= max(goes_on, 0.05)
        if self._drafted >= _USUAL_KNOWN:
            worth = min(worth, _LESS_SURE * goes_on ** (usual - 1))
        floor = max(worth, _SURER * goes_on**usual) / self._acceptance.trust
        self._exploring = self._trial == 1 and not self._pays
        if self._exploring:  # what no tree has nobody learns the worth of
            most = 1 + int(self._verify.of(1) / max(self._draft.of(width), 1e-9))
            depth, floor = min(self._deep, most), 0.0
        return Budget(nodes, min(depth, most_depth), width, floor)

    def _usual_depth(self, goes_on: float, width: int) -> int:
        """Return the depth of the fastest chains, given the recent acceptance."""
        begin, level = self._begin.value or 0.0, self._draft.of(width)

        def rate(depth: int, tokens: float) -> float:
            return tokens / (begin + depth * level + self._verify.of(depth + 1))

        return max(_chains(goes_on), key=lambda chain: rate(*chain))[0]

    def _is_plain(self) -> bool:
        """Tell whether the next round is plain, because that is faster or to compare."""
        if not self._verify.measured:
            return True
        if self._trial:
            self._on_credit = self._owing and not self._pays
            return False
        if self._pays and self._comparisons_left and self._drafted >= _COMPARE_AFTER:
            self._comparisons_left -= 1
            return True
        self._on_credit = self._credit >= self._loss and (self._following or not self._pays)
        if not self._pays and self._on_credit:
            self._trial, self._owing = _TRIAL, True
        return self._on_credit if self._pays else not self._on_credit

    @property
    def _pays(self) -> bool:
        return self._gain >= 1

    def _level_worth(self, width: int) -> float:
        """Return the tokens that a level's time is worth: to draft it and verify one more node.

        The cost of a row is the mean of the next three: T(n) often goes up in steps.
        """
        rows = max(round(self._kept.value) - 1, 1)
        row = max(self._verify.of(rows + 3) - self._verify.of(rows), 0.0) / 3
        return self._rate * (self._draft.of(width) + row)

    def _weigh(self) -> None:
        """Compare drafting with plain decoding, by all that is known."""
        plain = self._verify.of(1)
        tokens, seconds = self._tokens.value or 1.0, self._seconds.value or plain
        self._gain = tokens / seconds * plain
        self._rate = tokens / seconds if self._forced else max(tokens / seconds, 1 / plain)
        least = _LEAST_LOSS * plain
        if self._pays:
            self._loss = max(plain - seconds / tokens, least)
            self._credit = min(self._credit, 2 * self._loss)
        else:
            self._loss = _TRIAL * max(seconds - tokens * plain, least)

    @property
    def fallback_reason(self) -> str | None:
        """Why the target decodes alone, in words; None as long as drafting pays."""
        return None if self._forced or self._pays else fallback_words(self._gain)

    def prune(self, tree: TokenTree) -> TokenTree:
        """Keep as many of the best nodes as their probability of acceptance is worth their cost."""
        self._levels = max(_drafted(tree).depths)
        least = int(self._forced or bool(self._trial))
        trust = self._acceptance.trust
        kept = best_part(tree.best(_MOST), self._verify.of, self._rate, trust, least=least)
        drafted = _drafted(kept)
        self._rows, self._acceptance.promised = len(drafted), promised(drafted)
        self._widths.learn(drafted.parents, [exp(score) for score in drafted.scores[1:]])
        return kept

    def alone(self, tree: TokenTree) -> TokenTree:
        """Return the part of a tree that nothing was paid for to verify without drafting.

        No node, where drafting brings more, or the target alone.
        """
        if not tree.drafted or not self._verify.measured:
            return tree.best(0)
        rows = self._verify.of
        kept = best_part(tree.best(_MOST), rows, self._rate, 1.0)
        brings = 1 + promised(kept)
        return kept if brings >= _SURER * self._rate * rows(len(kept)) else tree.best(0)

    def observe(self, done: Round, proposing: float) -> None:
        """Learn from a finished round; `proposing` is the seconds its tree took to draft."""
        opening, self._opening = self._opening, False
        rows, drafting = done.drafted + 1, bool(done.drafting)
        self._verify.observe(rows, done.verify.seconds, opening=opening)
        self._reading.wrote(len(done.tokens), copied=bool(done.drafted and not drafting))
        if not drafting:
            self._account(self._verify.of(1), lost=self._loss)
            self._following = False
            self._weigh()
            return
        self._drafted += 1
        levels, following = self._levels, self._following
        # What lookup added the draft has to read before it goes on.
        self._following = done.accepted <= levels
        if levels and (following or not self._draft.knows(self._widths.now)):
            self._learn_drafting(levels, proposing / self._verify.slowdown)
        self._acceptance.observe(done, levels)
        self._kept.add(self._rows)
        tokens = self._acceptance.tokens
        seconds = self._drafting(levels) + self._verify.of(self._rows)
        if not self._exploring:
            self._tokens.add(tokens)
            self._seconds.add(seconds)
        self._account(seconds, lost=seconds - tokens * self._verify.of(1))
        self._trial = max(self._trial - 1, 0)
        self._weigh()
        self._widths.choose(self._draft, levels, self._tokens.value, self._seconds.value)

    def _learn_drafting(self, levels: int, seconds: float) -> None:
        """Learn the seconds of a level, and of a round's drafting besides its levels."""
        begin, believed = self._begin.value or 0.0, self._drafting(levels)
        if self._begin.weight > _FEW:
            seconds = capped(seconds, believed)
        beyond = seconds - believed
        self._begin.add(max(begin + beyond / levels, 0.0))
        self._draft.add(self._widths.now, max(seconds - begin, 0.0) / levels)

    def _drafting(self, levels: int) -> float:
        """Return the believed seconds of a round's drafting."""
        return (self._begin.value or 0.0) + levels * self._draft.of(self._widths.now)

    def _account(self, seconds: float, *, lost: float) -> None:
        """Keep the account of trials: rounds earn what trials may lose."""
        share = _COMPARISONS_SHARE if self._pays else _TRIALS_SHARE
        self._credit += -lost if self._on_credit else share * seconds
        self._on_credit = False

    @property
    def _means(self) -> dict[str, Mean]:
        return {"begin": self._begin} | self._reading.means | self._widths.means

    @property
    def _means_by_kind(self) -> dict[str, MeanByKind]:
        means = {"kept": self._kept, "tokens": self._tokens, "seconds": self._seconds}
        return super()._means_by_kind | means

    @property
    def _text(self) -> str:
        return PARTLY_READ if self._partly else super()._text

    def _turn(self) -> None:
        super()._turn()
        self._weigh()

    def recall(self, learnt: Learnt) -> None:
        """Believe what was learnt of the pair in an earlier start.

        Drafting is tried once all the same: this time's texts may be easier to predict.
        """
        super().recall(learnt)
        self._trial = _TRIAL
        self._weigh()


def _drafted(tree: TokenTree) -> TokenTree:
    """Return the part of a tree that a model has drafted; all of it, where none has."""
    nodes = [node for node in range(1, len(tree)) if tree.weight(node) is not None]
    return tree if not nodes or len(nodes) == tree.drafted else tree.arranged([0, *nodes])


def _bucket(rows: float) -> int:
    """Return the smallest bucket that holds so many rows."""
    return next((size for size in BUCKETS if size >= rows), BUCKETS[-1])


def _chains(acceptance: float) -> list[tuple[int, float]]:
    """Return (depth, tokens of a round) of every possible chain."""
    return list(enumerate(accumulate(acceptance**level for level in range(MAX_DEPTH + 1))))[1:]


def _best_round(expected: Expectation) -> tuple[float, float]:
    """Return tokens and seconds of the fastest round with a chain."""
    verify = Costs(BUCKETS, expected.verify, seconds=True)
    rounds = [(1.0, expected.verify[0])]
    rounds += [
        (tokens, depth * expected.levels[-1] + verify.of(depth + 1))
        for depth, tokens in _chains(expected.acceptance)
    ]
    return max(rounds, key=lambda each: each[0] / each[1])
