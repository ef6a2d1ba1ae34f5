"""The controller of both loops: what to draft next, from what was measured.

It fits the cost of a target forward by its rows, the cost of drafting and the acceptance of drafted
tokens by the kind of text, all online and with forgetting. It begins with what was learnt of the
pair before, or else with what the plan expects. Whether to draft at all, and whether both lanes
work at once or in turns, is `strategies.OffSwitch`'s to say. How large a tree is drafted in turns
`budgets` chooses; how a draft goes on beside the target, and who waits for whom, `pacing` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import exp, inf

from engine.backend.round import Budget, Round
from engine.backend.tree import TokenTree
from engine.language import tr
from engine.model.text.kinds_of_text import TextKind
from engine.plan.plan import BUCKETS, USUAL, Expectation
from engine.speculative import pacing
from engine.speculative.acceptance import Acceptance, best_part, promised
from engine.speculative.budgets import MOST_NODES, TreeBudgets, best_round
from engine.speculative.costs import DraftCosts, Learnt, Mean, MeanByKind, VerifyCosts
from engine.speculative.draft_tree import DraftPace
from engine.speculative.draft_worker import Outlook
from engine.speculative.reading import Reading
from engine.speculative.strategies import DraftingStrategy, OffSwitch

PARTLY_READ = "partly read"
"""Text whose beginning the draft has not read counts as a kind of its own."""

_EARNS = 1.03
"""Beside the target drafting has to be so many times as fast as the target alone: both lanes take
energy."""
_GOES_WELL = 1.2
"""Beside the target a draft that has read the end only, and brings so many plain speeds, need not
read the rest."""
_SURER = 1.05
"""What lookup proposes is verified without drafting if it brings so many times as much."""


class Controller:
    """Steers the drafting of one loaded pair; what it has learnt outlives the answer.

    Args:
        expected: of the pair, before anything is measured.
        costs: what drafting takes, as who drafts tells; None: as expected.
        ways: of drafting that are open, the expected best first. With PARALLEL among them the draft
            works on a thread of its own, and `pace` steers it; without, `next_budget` does.
        forced: always draft, since the user asked for this mode or draft by name.

    Attributes:
        costs: what drafting takes.
        switch: turns drafting off and on.
    """

    def __init__(
        self,
        expected: Expectation | None = None,
        costs: DraftCosts | None = None,
        ways: Sequence[DraftingStrategy] = (DraftingStrategy.SERIAL,),
        *,
        forced: bool = False,
    ) -> None:
        expected = expected or USUAL
        self._beside = beside = DraftingStrategy.PARALLEL in ways
        self.costs = costs or DraftCosts(expected.levels, beside=beside)
        self._verify = VerifyCosts(BUCKETS, expected.verify, beside=beside)
        self._acceptance = Acceptance(expected.acceptance)
        self._reading = Reading(expected.levels[-1] / self.costs.widths[-1])
        self._budgets = TreeBudgets(expected, self.costs, self._verify, self._acceptance)
        best = None if beside else best_round(self.costs, self._verify, expected.acceptance)
        worth = _EARNS if beside else 1.0
        self.switch = OffSwitch(ways, forced=forced, expected=best, worth=worth)
        self._forced = forced
        self._kind = TextKind.PROSE
        self._opening = True
        """Whether the round is the answer's first: after a prompt a forward is slower."""
        self._ready, self._partly = True, False
        """Whether the draft has read enough to draft, and whether it has not read all."""
        self._levels, self._rows = 0, 1
        """Levels and rows that the draft gives the present round; lookup adds rows of its own."""
        self._following = self._exploring = False
        self._before = DraftingStrategy.PLAIN
        self._alone = Mean()
        """Seconds of rounds in which a draft rests that otherwise works beside the target."""
        self.switch.weigh(self._plain)

    # -- what is believed ----------------------------------------------------------------------

    @property
    def acceptance(self) -> float:
        """Share of the draft's tokens that are accepted once all before them were, in all texts."""
        return self._acceptance.goes_on.overall

    @property
    def fallback_reason(self) -> str | None:
        """Why the target decodes alone, in words; None as long as drafting pays."""
        if self.switch.best is not DraftingStrategy.PLAIN:
            return None
        return tr(
            "Drafting would give {gain:.2f} times the plain speed here, so the target decodes "
            "alone."
        ).format(gain=self.switch.gain)

    @property
    def learnt(self) -> Learnt:
        """The beliefs as a later start should know them."""
        means = {name: mean.known for name, mean in self._means.items()}
        for name, mean in self._means_by_kind.items():
            means |= mean.known(name)
        return Learnt(verify=self._verify.known, levels=self.costs.known, means=means)

    def recall(self, learnt: Learnt) -> None:
        """Believe what was learnt of the pair in an earlier start.

        Drafting is tried once all the same: this time's texts may be easier to predict.
        """
        self._verify.recall(learnt.verify)
        self.costs.recall(learnt.levels)
        for name, mean in self._means.items():
            if known := learnt.means.get(name):
                mean.recall(known)
        for name, by_kind in self._means_by_kind.items():
            by_kind.recall(name, learnt.means)
        self.switch.weigh(self._plain)
        self.switch.try_again()

    @property
    def _plain(self) -> float:
        """Seconds of a round of the target alone."""
        return self._alone.value or self._verify.of(1)

    @property
    def _rate(self) -> float:
        """Tokens that a second is worth."""
        return self.switch.rate or 1 / self._verify.of(1)

    @property
    def _means(self) -> dict[str, Mean]:
        """Beliefs that hold for all text, by name."""
        return self._reading.means | {"begin": self.costs.begin} | self._budgets.widths.means

    @property
    def _means_by_kind(self) -> dict[str, MeanByKind]:
        """Beliefs that depend on the kind of text, by name."""
        return self._acceptance.means | self.switch.means_by_kind | {"kept": self._budgets.kept}

    # -- the text ------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start a new answer: what it is like its own rounds will tell."""
        for mean in self._means_by_kind.values():
            mean.begin()
        self._reading.begin()
        self._opening = self._ready = True
        self._partly = self._following = False
        self._turn()

    def turn_to(self, kind: TextKind) -> None:
        """Go by what is known of this kind of text: it is what the answer goes on with."""
        if kind is not self._kind:
            self._kind = kind
            self._turn()

    def _set_partly(self, partly: bool) -> None:
        if partly is not self._partly:
            self._partly = partly
            self._turn()

    def _turn(self) -> None:
        """Turn all beliefs to the kind of text."""
        for mean in self._means_by_kind.values():
            mean.turn_to(PARTLY_READ if self._partly else self._kind)
        self.switch.weigh(self._plain)

    # -- what the draft reads ------------------------------------------------------------------

    def to_read(self, missing: int, remaining: int) -> int:
        """Return how many tokens the draft should read now, the last of those that are missing.

        Where reading all of them does not pay, that is their end, and the rest once the answer is
        long enough, see `reading`. Where drafting is forced at least the end is read at once.
        Beside the target reading takes the draft's time only, which drafts nothing meanwhile.

        Args:
            missing: tokens that the draft has to read before it drafts as well as it can.
            remaining: tokens that may still be written.
        """
        reading, switch, plain = self._reading, self.switch, self._verify.of(1)
        self._ready = reading.begun or not missing
        if not missing or not (self._beside or self._verify.measured):
            return 0
        if not reading.begun:
            self._set_partly(False)
            saves = reading.saves(remaining, plain, inf if self._beside else switch.gain)
            count = reading.to_begin(missing, saves, plain, forced=self._forced)
            self._set_partly(count < missing)
            if count and (self._asked or self._worth_a_trial(count)):
                reading.begun = True
                return count
            if not self._partly:
                return 0
        well = switch.gain >= _GOES_WELL if self._beside else switch.pays
        if well or not reading.is_due(missing, remaining, plain):
            return 0
        self._set_partly(False)
        if pays := self.switch.pays:  # of whole texts
            switch.try_again()
        if self._asked or pays:
            return missing
        self._set_partly(True)
        return 0

    @property
    def _asked(self) -> bool:
        """Tell whether the draft reads without regard to what drafting has brought so far."""
        return self._forced or self._beside

    def has_read(self, pieces: Iterable[tuple[int, float]]) -> None:
        """Learn from pieces of the prompt that the draft has read: tokens, seconds."""
        for tokens, seconds in pieces:
            self._reading.learn(tokens, seconds)
            self._ready, self._following = True, False

    def _worth_a_trial(self, tokens: int) -> bool:
        """Tell whether drafting pays, or may be tried at the price of reading so many tokens."""
        switch, price = self.switch, self.switch.loss + self._reading.price(tokens)
        return switch.pays or switch.trial > 0 or switch.credit >= price

    # -- drafting in turns ---------------------------------------------------------------------

    def next_budget(self, most_depth: int) -> Budget | None:
        """Return the budget of the next round, or None to decode plainly.

        Args:
            most_depth: longest path that could still be committed.
        """
        switch = self.switch
        if most_depth < 1 or not self._ready or self._is_plain():
            return None
        self._exploring = switch.trial == 1 and not switch.pays
        if self._exploring:
            return self._budgets.trial(most_depth, switch.drafted)
        return self._budgets.next(most_depth, switch.drafted, self._rate)

    def _is_plain(self) -> bool:
        """Tell whether the next round is plain, because that is faster or to compare."""
        if self._forced:
            return False
        if not self._verify.measured:
            return True
        return self.switch.pick(comparable=self._following) is DraftingStrategy.PLAIN

    def alone(self, tree: TokenTree) -> TokenTree:
        """Return the part of a tree that nothing was paid for to verify without drafting.

        That is the root alone where drafting, or the target by itself, brings more.
        """
        if not tree.drafted or not self._verify.measured:
            return tree.best(0)
        rows, rate = self._verify.of, self._rate
        kept = best_part(tree.best(MOST_NODES), rows, rate, 1.0)
        brings = 1 + promised(kept)
        return kept if brings >= _SURER * rate * rows(len(kept)) else tree.best(0)

    # -- drafting beside the target ------------------------------------------------------------

    @property
    def lanes(self) -> pacing.LaneCosts:
        """Costs and gains as believed now."""
        return pacing.LaneCosts(
            verify=self._verify.of,
            step=self.costs.of,
            rate=self._rate,
            trust=self._acceptance.trust,
            goes_on=self._acceptance.goes_on.value,
        )

    def pace(self, *, ready: bool) -> DraftPace | None:
        """Return how the draft worker should go on; None to rest.

        Args:
            ready: whether it knows the committed tokens: as long as it does not, the target does
                not wait for it, and it works beside the target in any case.
        """
        strategy = self.switch.pick()
        if strategy is DraftingStrategy.PLAIN:
            return None
        return pacing.pace(self.lanes, overlap=strategy is DraftingStrategy.PARALLEL or not ready)

    def worth_waiting(self, outlook: Outlook) -> bool:
        """Tell whether an idle target should wait for the draft's running or next step."""
        if outlook.left is None:
            return False
        lanes, overlap = self.lanes, self.switch.now is DraftingStrategy.PARALLEL
        if not overlap and outlook.promise >= 1:  # nothing is drafted yet: without it, no round
            lanes = replace(lanes, trust=1.0, goes_on=1.0)
        return pacing.worth_waiting(lanes, outlook.promise, outlook.left, overlap=overlap)

    # -- the round -----------------------------------------------------------------------------

    def prune(self, tree: TokenTree) -> TokenTree:
        """Keep as many of the best nodes as their probability of acceptance is worth their cost."""
        acceptance, verify = self._acceptance, self._verify.of
        rate, least = self._rate, int(self._forced or bool(self.switch.trial))
        kept = best_part(tree.best(MOST_NODES), verify, rate, acceptance.trust, least=least)
        own = kept if self._beside else _drafted(kept)
        acceptance.promised = promised(own)
        if not self._beside:
            self._levels, self._rows = max(_drafted(tree).depths), len(own)
            self._budgets.widths.learn(own.parents, [exp(score) for score in own.scores[1:]])
        return kept

    def observe(self, done: Round, seconds: float, *, ready: bool = True) -> None:
        """Learn from a finished round.

        Args:
            done: the round.
            seconds: that its tree took to draft; beside the target those of the whole round,
                waiting for the draft included.
            ready: whether the draft knew the committed tokens when the round began.
        """
        opening, self._opening = self._opening, False
        self._verify.observe(done.drafted + 1, done.verify.seconds, opening=opening)
        copied = bool(done.drafted and not done.drafting and not self._beside)
        self._reading.wrote(len(done.tokens), copied=copied)
        if not self._beside:
            self._observe_in_turns(done, seconds)
        elif not opening:
            self._observe_beside(done, seconds, ready=ready)

    def _observe_in_turns(self, done: Round, proposing: float) -> None:
        """Learn from a round whose seconds are what its parts are believed to take."""
        switch, costs, budgets = self.switch, self.costs, self._budgets
        if not done.drafting:
            self._following = False
            switch.observe(self._plain)
            if not switch.pays:
                self._verify.fade()
                costs.fade()
            return
        levels, width, following = self._levels, budgets.widths.now, self._following
        # What lookup added the draft has to read before it goes on.
        self._following = done.accepted <= levels
        if levels and (following or not costs.knows(width)):
            costs.learn(levels, width, proposing / self._verify.slowdown)
        self._acceptance.observe(done, levels)
        budgets.kept.add(self._rows)
        seconds = costs.draft_seconds(levels, width) + self._verify.of(self._rows)
        tokens = self._acceptance.tokens
        switch.observe(self._plain, (tokens, seconds), usual=not self._exploring)
        budgets.widths.choose(costs, levels, *switch.usual(DraftingStrategy.SERIAL))

    def _observe_beside(self, done: Round, seconds: float, *, ready: bool) -> None:
        """Learn from a round that took as long as it took: its parts overlap."""
        if done.drafted:
            self._acceptance.observe(done)
        way, before = self.switch.now, self._before
        plain = way is DraftingStrategy.PLAIN
        if not ready and not plain:
            return
        self._before, settled = way, way is before
        if settled and plain:  # behind a change what was drafted before is still in use
            self._alone.add(seconds)
        tokens = self._acceptance.tokens if done.drafted else 1.0
        self.switch.observe(self._plain, None if plain else (tokens, seconds), usual=settled)


def _drafted(tree: TokenTree) -> TokenTree:
    """Return the part of a tree that a model has drafted; all of it, where none has."""
    nodes = [node for node in range(1, len(tree)) if tree.weight(node) is not None]
    return tree if not nodes or len(nodes) == tree.drafted else tree.arranged([0, *nodes])
