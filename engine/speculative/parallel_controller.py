"""The online controller of the parallel loop: what both lanes cost and bring, as it is measured.

The decisions themselves are `engine.speculative.pacing`'s; here is what they go by: seconds of a
target forward by its rows, seconds of a step of the draft by its nodes, how far the draft's chances
can be trusted, and the tokens per second of late, all with forgetting, and before anything is
measured what the plan expects. In `auto` rounds are spent in the manner that turns out to be
fastest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import exp

from engine.backend.round import Round
from engine.backend.tree import TokenTree
from engine.language import tr
from engine.plan.plan import (
    BUCKETS,
    USUAL_ACCEPTANCE,
    USUAL_LEVELS,
    USUAL_VERIFY,
    WIDTHS,
    Expectation,
)
from engine.speculative import pacing
from engine.speculative.costs import Costs, Learnt, Mean
from engine.speculative.lane.draft_lane import Outlook
from engine.speculative.lane.speculation import LanePace
from engine.speculative.manners import Manner, Manners

_LEAST_PROMISE = 0.05
"""What promises less says nothing about how far promises can be trusted."""
_MOST_TRUST = 3.0


class ParallelController:
    """Steers the draft lane of one loaded pair; what it has learnt outlives the answer.

    Args:
        expected: of the pair, before anything is measured.
        forced: always draft, as the user asked for this mode or draft by name.
        ahead: always draft while the target verifies, as the user asked for this mode.
    """

    def __init__(
        self, expected: Expectation | None = None, *, forced: bool = False, ahead: bool = False
    ) -> None:
        self._forced = forced or ahead
        allowed = [Manner.AHEAD]
        allowed += [] if ahead else [Manner.TURNS]
        allowed += [] if self._forced else [Manner.ALONE]
        self._manners = Manners(allowed)
        verify = expected.verify if expected else USUAL_VERIFY
        steps = expected.levels if expected else USUAL_LEVELS
        acceptance = expected.acceptance if expected else USUAL_ACCEPTANCE
        self._verify = Costs(BUCKETS, verify, seconds=expected is not None)
        self._step = Costs(WIDTHS[: len(steps)], steps, seconds=expected is not None)
        self._goes_on = Mean(acceptance, 6.0)
        self._trust = Mean(1.0, 8.0)
        self._expected = 0.0
        self._opening, self._verified = True, 0

    @property
    def learnt(self) -> Learnt:
        """What a later start should know."""
        means = {name: mean.known for name, mean in self._means.items()}
        return Learnt(self._verify.known, self._step.known, means)

    def recall(self, learnt: Learnt) -> None:
        """Believe what was learnt of the pair in an earlier start."""
        self._verify.recall(learnt.verify)
        self._step.recall(learnt.levels)
        for name, mean in self._means.items():
            if known := learnt.means.get(name):
                mean.recall(known)

    @property
    def _means(self) -> dict[str, Mean]:
        return {"goes_on": self._goes_on, "trust": self._trust}

    @property
    def lanes(self) -> pacing.LaneCosts:
        """What is known now."""
        return pacing.LaneCosts(
            verify=self._verify.of,
            step=self._step.of,
            rate=self._manners.rate,
            trust=self._trust.value or 1.0,
            goes_on=self._goes_on.value or 0.0,
        )

    @property
    def manner(self) -> Manner:
        """Of the next round."""
        return self._manners.now

    @property
    def best(self) -> Manner:
        """What has turned out to be fastest, whatever is being tried again just now."""
        return self._manners.best

    @property
    def fallback_reason(self) -> str | None:
        """Why the target decodes alone, in words; None as long as it does not."""
        gain = self._manners.gain
        if self.best is not Manner.ALONE or gain is None:
            return None
        return tr(
            "Drafting would give {gain:.2f} times the plain speed here, "
            "so the target decodes alone."
        ).format(gain=gain)

    def begin(self) -> None:
        """A new answer."""
        self._opening = True

    def pace(self, *, ready: bool) -> LanePace | None:
        """How the draft lane should go on; None to rest.

        Args:
            ready: whether it knows the committed tokens: as long as it does not, the target does
                not wait for it, and it works beside the target in any case.
        """
        manner = self._manners.now
        if manner is Manner.ALONE:
            return None
        return pacing.pace(self.lanes, overlap=manner is Manner.AHEAD or not ready)

    def worth_waiting(self, outlook: Outlook) -> bool:
        """Whether an idle target should wait for the draft's running or next step."""
        if outlook.left is None:
            return False
        lanes, overlap = self.lanes, self._manners.now is Manner.AHEAD
        if not overlap and outlook.promise >= 1:  # nothing is drafted: without it this is no turn
            lanes = replace(lanes, trust=1.0, goes_on=1.0)
        return pacing.worth_waiting(lanes, outlook.promise, outlook.left, overlap=overlap)

    def prune(self, tree: TokenTree) -> TokenTree:
        """The part of what is drafted that is worth verifying now."""
        kept = pacing.best_part(self.lanes, tree)
        if self._forced and not kept.drafted:
            kept = tree.best(1)
        self._expected = sum(exp(score) for score in kept.scores[1:])
        return kept

    def observe(
        self, done: Round, seconds: float, steps: Iterable[tuple[int, float, float]], *, ready: bool
    ) -> None:
        """Learn from a finished round.

        Args:
            done: the round.
            seconds: it took, waiting for the draft included.
            steps: of the draft that have ended meanwhile: nodes, seconds, chance of the likeliest.
            ready: whether the lane knew the committed tokens when the round began.
        """
        for nodes, spent, _ in steps:
            self._step.add(nodes, spent)
        opening, self._opening = self._opening, False
        if not opening or not self._verified:
            self._verify.add(done.drafted + 1, done.verify.seconds)
        self._verified += 1
        if opening:  # behind a prompt a forward is slower than others
            return
        tokens = 1.0
        if done.drafted:
            for accepted in done.verified.accepted_by_depth:
                self._goes_on.add(accepted)
            if self._expected > _LEAST_PROMISE:
                self._trust.add(min(done.accepted / self._expected, _MOST_TRUST))
            # What was to be expected varies less from round to round than what came of it.
            tokens += (self._trust.value or 1.0) * self._expected
        if ready or self._manners.now is Manner.ALONE:
            self._manners.learn(tokens, seconds, self._verify.of(1))
