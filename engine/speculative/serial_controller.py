"""The controller of the serial loop: how much to draft next, from what was measured.

Drafting goes a level deeper where that promises more than its time is worth. Whether to draft at
all is `strategies.OffSwitch`'s to say.
"""

from __future__ import annotations

from itertools import accumulate
from math import exp

from engine.backend.round import Budget, Round
from engine.backend.tree import TokenTree
from engine.plan.plan import BUCKETS, USUAL, WIDTHS, Expectation
from engine.speculative.controller import Controller, best_part, promised
from engine.speculative.costs import Costs, DraftCosts, Mean, MeanByKind, VerifyCosts
from engine.speculative.strategies import DraftingStrategy, OffSwitch
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
        self._draft: DraftCosts
        super().__init__(
            VerifyCosts(BUCKETS, expected.verify),
            DraftCosts(widths, expected.levels),
            expected.acceptance,
            OffSwitch([DraftingStrategy.SERIAL], forced=forced, expected=_best_round(expected)),
            expected.levels[-1] / widths[-1],
            forced=forced,
        )
        self._widths = Widths(widths)
        self._deep = expected.depth
        self._kept = MeanByKind((expected.nodes + 1) / 2, 2.0)
        """Rows of a round."""
        self._levels, self._rows = 0, 1
        """Levels and rows that the draft gives the present round; lookup adds rows of its own."""
        self._following = self._exploring = False
        self._ready, self._partly = True, False
        """Whether the draft has read enough to draft, and whether it has not read all."""
        self.switch.weigh(self._plain)

    def begin(self) -> None:
        """Start a new answer."""
        super().begin()
        self._ready, self._following = True, False
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
        reading, switch, plain = self._reading, self.switch, self._plain
        self._ready = reading.begun or not missing
        if not missing or not self._verify.measured:
            return 0
        if not reading.begun:
            self._set_partly(False)
            saves = reading.saves(remaining, plain, switch.gain)
            count = reading.to_begin(missing, saves, plain, forced=self._forced)
            self._set_partly(count < missing)
            if count and (self._forced or self._worth_a_trial(count)):
                return count
            if count == missing:
                return 0
        if switch.pays or not reading.is_due(missing, remaining, plain):
            return 0
        self._set_partly(False)
        if pays := self.switch.pays:  # of whole texts
            switch.try_again()
        if self._forced or pays:
            return missing
        self._set_partly(True)
        return 0

    def has_read(self, tokens: int, seconds: float) -> None:
        """Learn how long the draft took to read so many tokens."""
        self._reading.learn(tokens, seconds)
        self._ready, self._following = True, False

    def _worth_a_trial(self, tokens: int) -> bool:
        """Tell whether drafting pays, or may be tried at the price of reading so many tokens."""
        switch, price = self.switch, self.switch.loss + self._reading.price(tokens)
        return switch.pays or switch.trial > 0 or switch.credit >= price

    def _set_partly(self, partly: bool) -> None:
        if partly is not self._partly:
            self._partly = partly
            self._turn()

    def next_budget(self, most_depth: int) -> Budget | None:
        """Return the budget of the next round, or None to decode plainly.

        Args:
            most_depth: longest path that could still be committed.
        """
        switch = self.switch
        if most_depth < 1 or not self._ready or self._is_plain():
            return None
        width = self._widths.next(switch.drafted)
        worth, goes_on = self._level_worth(width), self._acceptance.goes_on.value
        nodes = min(2 * _bucket(self._kept.value), BUCKETS[-1]) - 1
        usual = self._usual_depth(goes_on, width)
        depth = min(usual + _SLACK, MAX_DEPTH)
        worth /= max(goes_on, 0.05)
        if switch.drafted >= _USUAL_KNOWN:
            worth = min(worth, _LESS_SURE * goes_on ** (usual - 1))
        floor = max(worth, _SURER * goes_on**usual) / self._acceptance.trust
        self._exploring = switch.trial == 1 and not switch.pays
        if self._exploring:  # what no tree has nobody learns the worth of
            most = 1 + int(self._plain / max(self._draft.of(width), 1e-9))
            depth, floor = min(self._deep, most), 0.0
        return Budget(nodes, min(depth, most_depth), width, floor)

    def _usual_depth(self, goes_on: float, width: int) -> int:
        """Return the depth of the fastest chains, given the recent acceptance."""

        def rate(depth: int, tokens: float) -> float:
            return tokens / (self._draft.draft_seconds(depth, width) + self._verify.of(depth + 1))

        return max(_chains(goes_on), key=lambda chain: rate(*chain))[0]

    def _is_plain(self) -> bool:
        """Tell whether the next round is plain, because that is faster or to compare."""
        if self._forced:
            return False
        if not self._verify.measured:
            return True
        return self.switch.pick(comparable=self._following) is DraftingStrategy.PLAIN

    def _level_worth(self, width: int) -> float:
        """Return the tokens that a level's time is worth: to draft it and verify one more node.

        The cost of a row is the mean of the next three: T(n) often goes up in steps.
        """
        rows = max(round(self._kept.value) - 1, 1)
        row = max(self._verify.of(rows + 3) - self._verify.of(rows), 0.0) / 3
        return self.switch.rate * (self._draft.of(width) + row)

    def prune(self, tree: TokenTree) -> TokenTree:
        """Keep as many of the best nodes as their probability of acceptance is worth their cost."""
        self._levels = max(_drafted(tree).depths)
        least = int(self._forced or bool(self.switch.trial))
        trust = self._acceptance.trust
        rate = self.switch.rate
        kept = best_part(tree.best(_MOST), self._verify.of, rate, trust, least=least)
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
        rows, rate = self._verify.of, self.switch.rate
        kept = best_part(tree.best(_MOST), rows, rate, 1.0)
        brings = 1 + promised(kept)
        return kept if brings >= _SURER * rate * rows(len(kept)) else tree.best(0)

    def observe(self, done: Round, proposing: float) -> None:
        """Learn from a finished round; `proposing` is the seconds its tree took to draft."""
        opening, self._opening = self._opening, False
        rows, drafting = done.drafted + 1, bool(done.drafting)
        self._verify.observe(rows, done.verify.seconds, opening=opening)
        self._reading.wrote(len(done.tokens), copied=bool(done.drafted and not drafting))
        if not drafting:
            self._following = False
            self.switch.observe(self._plain)
            if not self.switch.pays:
                self._verify.fade()
                self._draft.fade()
            return
        levels, width, following = self._levels, self._widths.now, self._following
        # What lookup added the draft has to read before it goes on.
        self._following = done.accepted <= levels
        if levels and (following or not self._draft.knows(width)):
            self._draft.learn(levels, width, proposing / self._verify.slowdown)
        self._acceptance.observe(done, levels)
        self._kept.add(self._rows)
        seconds = self._draft.draft_seconds(levels, width) + self._verify.of(self._rows)
        switch, tokens = self.switch, self._acceptance.tokens
        switch.observe(self._plain, (tokens, seconds), usual=not self._exploring)
        self._widths.choose(self._draft, levels, *switch.usual(DraftingStrategy.SERIAL))

    @property
    def _means(self) -> dict[str, Mean]:
        return super()._means | {"begin": self._draft.begin} | self._widths.means

    @property
    def _means_by_kind(self) -> dict[str, MeanByKind]:
        return super()._means_by_kind | {"kept": self._kept}

    @property
    def _text(self) -> str:
        return PARTLY_READ if self._partly else super()._text


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
