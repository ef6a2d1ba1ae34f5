"""The controller of the parallel loop: both lanes' costs and gains, from what was measured.

`engine.speculative.pacing` decides; this module keeps what it decides by, with forgetting. Whether
both lanes work at once, in turns, or the target alone is `strategies.OffSwitch`'s to say.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import inf

from engine.backend.round import Round
from engine.backend.tree import TokenTree
from engine.plan.plan import (
    BUCKETS,
    USUAL_ACCEPTANCE,
    USUAL_LEVELS,
    USUAL_VERIFY,
    WIDTHS,
    Expectation,
)
from engine.speculative import pacing
from engine.speculative.controller import Controller, best_part, promised
from engine.speculative.costs import Costs, Mean
from engine.speculative.draft_tree import DraftPace
from engine.speculative.draft_worker import Outlook
from engine.speculative.strategies import DraftingStrategy, OffSwitch

_GOES_WELL = 1.2
"""A draft that has read the end only, and brings so many plain speeds, need not read the rest."""

_EARNS = 1.03
"""Drafting has to be so many times as fast as the target alone: both lanes take energy."""


class ParallelController(Controller):
    """Steers the draft worker of one loaded pair; what it has learnt outlives the answer.

    Args:
        expected: of the pair, before anything is measured.
        forced: always draft, since the user asked for this mode or draft by name.
        ahead: always draft while the target verifies, since the user asked for this mode.
    """

    def __init__(
        self, expected: Expectation | None = None, *, forced: bool = False, ahead: bool = False
    ) -> None:
        verify = expected.verify if expected else USUAL_VERIFY
        steps = expected.levels if expected else USUAL_LEVELS
        widths, known = WIDTHS[: len(steps)], expected is not None
        ways = [DraftingStrategy.PARALLEL, *([] if ahead else [DraftingStrategy.SERIAL])]
        super().__init__(
            Costs(BUCKETS, verify, seconds=known),
            Costs(widths, steps, seconds=known),
            expected.acceptance if expected else USUAL_ACCEPTANCE,
            OffSwitch(ways, forced=forced or ahead, worth=_EARNS),
            steps[-1] / widths[-1] if known else 0.0,  # nothing known: then it reads all
            forced=forced or ahead,
        )
        self._alone = Mean()
        """Seconds of rounds in which the draft rests."""
        self._verified, self._before = 0, DraftingStrategy.PLAIN

    @property
    def lanes(self) -> pacing.LaneCosts:
        """Costs and gains as believed now."""
        return pacing.LaneCosts(
            verify=self._verify.of,
            step=self._draft.of,
            rate=self.switch.rate_of(self.switch.now),
            trust=self._acceptance.trust,
            goes_on=self._acceptance.goes_on.value,
        )

    @property
    def _plain(self) -> float:
        return self._alone.value or self._verify.of(1)

    def to_read(self, missing: int, remaining: int, *, begun: bool) -> int:
        """Return how many tokens the draft should read now, the last of those that are missing.

        Reading takes the target no time here. It takes the draft's, which drafts nothing meanwhile:
        so all is read where that is a small part of the answer's time, else the end, and the rest
        once the answer is long, unless drafting goes well without.

        Args:
            missing: tokens that the draft has to read before it drafts as well as it can.
            remaining: tokens that may still be written.
            begun: whether it has read anything for this answer.
        """
        if not missing:
            return 0
        reading, plain = self._reading, self._verify.of(1)
        if not begun:
            saves = reading.saves(remaining, plain, inf)
            return reading.to_begin(missing, saves, plain, forced=self._forced)
        well = self.switch.gain >= _GOES_WELL
        return missing if not well and reading.is_due(missing, remaining, plain) else 0

    def has_read(self, pieces: Iterable[tuple[int, float]]) -> None:
        """Learn from pieces of the prompt that the draft has read: tokens, seconds."""
        for tokens, seconds in pieces:
            self._reading.learn(tokens, seconds)

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

    def prune(self, tree: TokenTree) -> TokenTree:
        """Keep the part of the tree that is worth verifying now."""
        verify, trust = self._verify.of, self._acceptance.trust
        first = verify(1)
        rate = self.lanes.rate or (1 / first if first > 0 else 0.0)
        kept = best_part(tree, verify, rate, trust, least=int(self._forced))
        self._acceptance.promised = promised(kept)
        return kept

    def observe(
        self, done: Round, seconds: float, steps: Iterable[tuple[int, float]], *, ready: bool
    ) -> None:
        """Learn from a finished round.

        Args:
            done: the round.
            seconds: it took, waiting for the draft included.
            steps: of the draft that have ended meanwhile: nodes, seconds.
            ready: whether the worker knew the committed tokens when the round began.
        """
        for nodes, spent in steps:
            self._draft.add(nodes, spent)
        opening, self._opening = self._opening, False
        if not opening or not self._verified:
            self._verify.add(done.drafted + 1, done.verify.seconds)
        self._verified += 1
        self._reading.wrote(len(done.tokens), copied=False)
        if opening:  # after a prompt a forward is slower than others
            return
        tokens = 1.0
        if done.drafted:
            self._acceptance.observe(done)
            tokens = self._acceptance.tokens
        way = self.switch.now
        if not ready and way is not DraftingStrategy.PLAIN:
            return
        # Behind a change what was drafted before is still in use.
        settled, self._before = way is self._before, way
        if settled and way is DraftingStrategy.PLAIN:
            self._alone.add(seconds)
        drafted = None if way is DraftingStrategy.PLAIN else (tokens, seconds)
        self.switch.observe(self._plain, drafted, usual=settled)
