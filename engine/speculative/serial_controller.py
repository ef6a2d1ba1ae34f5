"""The online controller: how much to draft next, from what was measured.

It fits the cost of a target forward by its rows, the cost of a drafted level by its width and how
far the draft's probabilities can be trusted, all with forgetting. A second is worth what rounds
bring in one: drafting goes a level deeper, and a node is verified, where it promises more than its
time is worth. It begins with what was learnt of the pair before, or else with what the plan
expects.

In `auto` rounds draft, or the target decodes alone, whichever is faster by these numbers. The other
way is tried again whenever what a trial is expected to lose is no more than a small share of the
time since the last one: a clear loser seldom, one that is about as fast at once.
"""

from __future__ import annotations

from itertools import accumulate
from math import exp

from engine.backend.round import Budget, Round
from engine.backend.tree import TokenTree
from engine.language import tr
from engine.plan.plan import BUCKETS, USUAL, WIDTHS, Expectation
from engine.speculative.costs import Costs, Learnt, Mean, VerifyCosts, capped
from engine.speculative.widths import Widths

MAX_DEPTH = 10
_SLACK, _SURER = 2, 1.05
"""Up to so many levels beyond the usual depth are drafted, while the path is at least so many times
as likely to be accepted as a usual path of that depth."""
_LESS_SURE, _USUAL_KNOWN = 0.95, 12
"""Before the usual depth no path ends that is nearly as likely as a usual one. This holds after so
many drafting rounds: earlier that depth is more the plan's than measured."""
_TRIALS_SHARE, _COMPARISONS_SHARE = 0.005, 0.0025
"""Share of the time that may be lost by trying to draft where it does not pay, and by decoding
plainly, to compare, where it does."""
_FIRST_TRIAL, _TRIAL = 4, 3
"""Drafting rounds of a trial: the first of them also catches up with what was decoded meanwhile."""
_FEW = 6.0
"""The first measurements of drafting are not capped: too little is known to call one a hiccup."""
_COMPARE_AFTER, _COMPARISONS = 6, 3
"""After the first drafting rounds come a few plain ones, so that even the first answer can tell the
user what drafting brings."""
_FORGET_RATE, _FORGET_CHANCE = 0.98, 0.985


class SerialController:
    """Chooses budgets for one loaded pair; what it has learnt outlives the answer.

    Args:
        expected: of the pair, before anything is measured.
        forced: always draft, as the user asked for this mode or draft by name.
    """

    def __init__(self, expected: Expectation | None = None, *, forced: bool = False) -> None:
        self._forced = forced
        expected = expected or USUAL
        widths = WIDTHS[: len(expected.levels)]
        self._verify = VerifyCosts(BUCKETS, expected.verify)
        self._level = Costs(widths, expected.levels, seconds=True, weight=4.0)
        self._widths = Widths(widths)
        self._begin = Mean(0.0, 1.0)
        """Seconds of a round's drafting besides its levels."""
        self._deep = expected.depth
        self._next = Mean(expected.acceptance, 6.0, _FORGET_CHANCE)
        """Chance that the path goes on below a node that was accepted."""
        self._promised = Mean(1.0, 6.0, _FORGET_CHANCE)
        """Tokens that the draft's probabilities promise of a round."""
        self._fulfilled = Mean(1.0, 6.0, _FORGET_CHANCE)
        """Those that are accepted."""
        self._kept = Mean((expected.nodes + 1) / 2, 2.0)
        """Rows of a round."""
        tokens, seconds = _best_round(expected)
        self._tokens = Mean(tokens, 1.0, _FORGET_RATE)
        self._seconds = Mean(seconds, 1.0, _FORGET_RATE)
        """What rounds that draft bring, and what they take."""
        self._levels = 0
        self._expected = 0.0
        self._drafted = 0
        self._opening = True
        self._following = self._exploring = False
        self._trial = _FIRST_TRIAL
        self._comparisons_left = _COMPARISONS
        self._credit = 0.0
        """Seconds that trials may lose; after one that lost more than was thought, fewer than 0."""
        self._on_credit = self._owing = False
        """Whether the round is a trial that is paid from it, as all but the first are."""
        self._plain_seconds = 0.0
        self._weigh()

    def begin(self) -> None:
        """A new answer."""
        self._plain_seconds, self._opening, self._following = 0.0, True, False

    def worth_beginning(self, seconds: float) -> bool:
        """Whether a drafter that needs `seconds` to catch up should do so now.

        A short answer would never earn them back. So, as one rents skis until the rent paid
        equals their price, the target decodes alone until it has spent as long.
        """
        if self._forced:
            return True
        if self._pays or self._trial:
            return self._plain_seconds >= seconds
        return self._credit >= self._loss + seconds

    def next_budget(self, most_depth: int) -> Budget | None:
        """The budget of the next round, or None to decode plainly.

        Args:
            most_depth: longest path that could still be committed.
        """
        self._on_credit = False
        if most_depth < 1 or (not self._forced and self._is_plain()):
            return None
        width = self._widths.next(self._drafted)
        worth, goes_on = self._level_worth(width), self._next.value or 0.0
        nodes = min(2 * _bucket(self._kept.value or 0.0), BUCKETS[-1]) - 1
        usual = self._usual_depth(goes_on, width)
        depth = min(usual + _SLACK, MAX_DEPTH)
        worth /= max(goes_on, 0.05)
        if self._drafted >= _USUAL_KNOWN:
            worth = min(worth, _LESS_SURE * goes_on ** (usual - 1))
        floor = max(worth, _SURER * goes_on**usual) / self._trust
        self._exploring = self._trial == 1 and not self._pays
        if self._exploring:  # what no tree has nobody learns the worth of
            most = 1 + int(self._verify.of(1) / max(self._level.of(width), 1e-9))
            depth, floor = min(self._deep, most), 0.0
        return Budget(nodes, min(depth, most_depth), width, floor)

    def _usual_depth(self, goes_on: float, width: int) -> int:
        """Depth of the chains that bring most tokens a second, if paths go on as of late."""
        begin, level = self._begin.value or 0.0, self._level.of(width)

        def rate(depth: int, tokens: float) -> float:
            return tokens / (begin + depth * level + self._verify.of(depth + 1))

        return max(_chains(goes_on), key=lambda chain: rate(*chain))[0]

    def _is_plain(self) -> bool:
        """Whether the next round is the target's alone, because that is faster or to compare."""
        if not self._verify.measured:
            return True
        if self._trial:
            self._on_credit = self._owing and not self._pays
            return False
        if self._pays and self._comparisons_left and self._drafted >= _COMPARE_AFTER:
            self._comparisons_left -= 1
            return True
        self._on_credit = self._credit >= self._loss
        if not self._pays and self._on_credit:
            self._trial, self._owing = _TRIAL, True
        return self._on_credit if self._pays else not self._on_credit

    @property
    def _trust(self) -> float:
        """What is accepted, to what the draft's probabilities promise."""
        promised, fulfilled = self._promised.value or 0.0, self._fulfilled.value or 0.0
        return min(max(fulfilled / promised, 0.1), 3.0) if promised else 1.0

    @property
    def _pays(self) -> bool:
        return self._gain >= 1

    def _level_worth(self, width: int) -> float:
        """Tokens that the time of a level is worth: to draft it, and to verify one more node.

        The cost of a row is the mean of the next three: T(n) often goes up in steps.
        """
        rows = max(round(self._kept.value or 0.0) - 1, 1)
        row = max(self._verify.of(rows + 3) - self._verify.of(rows), 0.0) / 3
        return self._rate * (self._level.of(width) + row)

    def _weigh(self) -> None:
        """Weigh drafting against the target alone, by all that is known."""
        plain = self._verify.of(1)
        tokens, seconds = self._tokens.value or 1.0, self._seconds.value or plain
        self._gain = tokens / seconds * plain
        self._rate = tokens / seconds if self._forced else max(tokens / seconds, 1 / plain)
        if self._pays:
            self._loss = plain - seconds / tokens
        else:
            self._loss = _TRIAL * max(seconds - tokens * plain, 0.0)

    @property
    def fallback_reason(self) -> str | None:
        """Why the target decodes alone, in words; None as long as drafting pays."""
        if self._forced or self._pays:
            return None
        return tr(
            "Drafting would give {gain:.2f} times the plain speed here, "
            "so the target decodes alone."
        ).format(gain=self._gain)

    def prune(self, tree: TokenTree) -> TokenTree:
        """Keep as many of the best nodes as their chance of acceptance is worth their cost."""
        self._levels = max(tree.depths)
        trust, rate = self._trust, self._rate
        chances = [exp(score) for score in tree.scores[1:]]
        tokens = accumulate([min(trust * chance, 1.0) for chance in chances], initial=1.0)
        worths = [
            brought - rate * self._verify.of(rows) for rows, brought in enumerate(tokens, start=1)
        ]
        if (self._forced or self._trial) and tree.drafted:
            worths[0] = float("-inf")
        best = max(range(len(worths)), key=worths.__getitem__)
        self._expected = sum(chances[:best])
        kept = tree.best(best)
        self._widths.learn(kept.parents, chances)
        return kept

    def observe(self, done: Round, proposing: float) -> None:
        """Learn from a finished round; `proposing` is the seconds its tree took to draft."""
        opening, self._opening = self._opening, False
        rows, drafting = done.drafted + 1, bool(done.drafting)
        self._verify.observe(rows, done.verify.seconds, opening=opening)
        if not drafting:
            self._plain_seconds += done.verify.seconds
            self._account(self._verify.of(1), lost=self._loss)
            self._following = False
            self._weigh()
            return
        self._drafted += 1
        levels, following, self._following = self._levels, self._following, True
        if levels and (following or not self._level.knows(self._widths.now)):
            self._learn_drafting(levels, proposing / self._verify.slowdown)
        for accepted in done.verified.accepted_by_depth:
            self._next.add(accepted)
        if done.drafted:
            self._promised.add(self._expected)
            self._fulfilled.add(done.accepted)
        self._kept.add(rows)
        # What was to be expected varies less from round to round than what came of it.
        tokens = 1 + self._trust * self._expected
        seconds = self._drafting(levels) + self._verify.of(rows)
        if not self._exploring:
            self._tokens.add(tokens)
            self._seconds.add(seconds)
        self._account(seconds, lost=seconds - tokens * self._verify.of(1))
        self._trial = max(self._trial - 1, 0)
        self._weigh()
        self._widths.choose(self._level, levels, self._tokens.value, self._seconds.value)

    def _learn_drafting(self, levels: int, seconds: float) -> None:
        """Learn what a level takes, and what a round's drafting takes besides."""
        begin, believed = self._begin.value or 0.0, self._drafting(levels)
        if self._begin.weight > _FEW:
            seconds = capped(seconds, believed)
        beyond = seconds - believed
        self._begin.add(max(begin + beyond / levels, 0.0))
        self._level.add(self._widths.now, max(seconds - begin, 0.0) / levels)

    def _drafting(self, levels: int) -> float:
        """Seconds of a round's drafting, as believed."""
        return (self._begin.value or 0.0) + levels * self._level.of(self._widths.now)

    def _account(self, seconds: float, *, lost: float) -> None:
        """Rounds earn what trials may lose, and trials pay for what they have lost."""
        share = _COMPARISONS_SHARE if self._pays else _TRIALS_SHARE
        self._credit += -lost if self._on_credit else share * seconds
        self._on_credit = False

    @property
    def learnt(self) -> Learnt:
        """What a later start should know."""
        return Learnt(
            verify=self._verify.known,
            levels=self._level.known,
            means={name: mean.known for name, mean in self._means.items()},
        )

    @property
    def _means(self) -> dict[str, Mean]:
        means = {
            "goes_on": self._next,
            "promised": self._promised,
            "fulfilled": self._fulfilled,
            "kept": self._kept,
            "begin": self._begin,
            "tokens": self._tokens,
            "seconds": self._seconds,
        }
        return means | self._widths.means

    def recall(self, learnt: Learnt) -> None:
        """Believe what was learnt of the pair in an earlier start.

        Drafting is tried once all the same: this time's texts may be easier to foretell.
        """
        self._trial = _TRIAL
        self._verify.recall(learnt.verify)
        self._level.recall(learnt.levels)
        for name, mean in self._means.items():
            if known := learnt.means.get(name):
                mean.recall(known)
        self._weigh()


def _bucket(rows: float) -> int:
    """The smallest bucket that holds so many rows."""
    return next((size for size in BUCKETS if size >= rows), BUCKETS[-1])


def _chains(acceptance: float) -> list[tuple[int, float]]:
    """Depth of every possible chain, and the tokens that a round with it brings."""
    return list(enumerate(accumulate(acceptance**level for level in range(MAX_DEPTH + 1))))[1:]


def _best_round(expected: Expectation) -> tuple[float, float]:
    """Tokens and seconds of the rounds that would bring most tokens a second, with chains."""
    verify = Costs(BUCKETS, expected.verify, seconds=True)
    rounds = [(1.0, expected.verify[0])]
    rounds += [
        (tokens, depth * expected.levels[-1] + verify.of(depth + 1))
        for depth, tokens in _chains(expected.acceptance)
    ]
    return max(rounds, key=lambda each: each[0] / each[1])
