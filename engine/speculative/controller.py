"""The common base of both controllers: beliefs about a loaded pair, and the worth of a node.

A controller fits the cost of a target forward by its rows, the cost of a drafting step by its width
and the acceptance of drafted tokens by the kind of text, all online and with forgetting. It begins
with what was learnt of the pair before, or else with what the plan expects. A second is worth the
tokens that rounds bring in one; a node is verified where its probability of acceptance is worth its
time.
"""

from __future__ import annotations

from itertools import accumulate
from math import exp

from engine.backend.round import Round
from engine.backend.tree import TokenTree
from engine.language import tr
from engine.model.text.kinds_of_text import TextKind
from engine.speculative.costs import Costs, Learnt, Mean, MeanByKind, Seconds
from engine.speculative.reading import Reading
from engine.speculative.strategies import DraftingStrategy, OffSwitch

_LEAST_TRUST, _MOST_TRUST = 0.1, 3.0
_FORGET = 0.985


class Acceptance:
    """The share of a draft's proposals that is accepted, for each kind of text.

    Args:
        expected: acceptance of a drafted token that the plan expects.

    Attributes:
        goes_on: probability that the path goes on below an accepted node.
        promised: accepted tokens of the tree under verification by the draft's own probabilities.
    """

    __slots__ = ("_fulfilled", "_promised", "goes_on", "promised")

    def __init__(self, expected: float) -> None:
        self.goes_on = MeanByKind(expected, 6.0, _FORGET)
        self.promised = 0.0
        self._promised = MeanByKind(1.0, 6.0, _FORGET)
        self._fulfilled = MeanByKind(1.0, 6.0, _FORGET)

    @property
    def trust(self) -> float:
        """Ratio of what is accepted to what the draft's probabilities promise."""
        promised, fulfilled = max(self._promised.value, 1e-9), self._fulfilled.value
        return min(max(fulfilled / promised, _LEAST_TRUST), _MOST_TRUST)

    @property
    def tokens(self) -> float:
        """Tokens to expect of the round; they vary less from round to round than the outcome."""
        return 1 + self.trust * self.promised

    def observe(self, done: Round, deep: int | None = None) -> None:
        """Learn from a verified tree; `deep`: how far it is the draft's own, if not all of it."""
        for accepted in done.verified.accepted_by_depth[:deep]:
            self.goes_on.add(accepted)
        if done.drafted:
            self._promised.add(self.promised)
            self._fulfilled.add(sum(done.verified.accepted_by_depth[:deep]))

    @property
    def means(self) -> dict[str, MeanByKind]:
        """All of its means by name."""
        return {"goes_on": self.goes_on, "promised": self._promised, "fulfilled": self._fulfilled}


class Controller:
    """Base of the controllers; what it has learnt outlives the answer.

    Args:
        verify: seconds of a target forward by its rows.
        draft: seconds of a drafting step by its width.
        acceptance: expected acceptance of a drafted token.
        switch: turns drafting off and on.
        reads: seconds for which the draft is expected to read a token.
        forced: always draft, since the user asked for this mode or draft by name.
    """

    def __init__(
        self,
        verify: Costs,
        draft: Costs,
        acceptance: float,
        switch: OffSwitch,
        reads: float,
        *,
        forced: bool,
    ) -> None:
        self._verify, self._draft, self.switch = verify, draft, switch
        self._acceptance = Acceptance(acceptance)
        self._reading = Reading(reads)
        self._forced = forced
        self._opening = True
        """Whether the round is the answer's first: after a prompt a forward is slower."""
        self._kind = TextKind.PROSE

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
        return Learnt(verify=self._verify.known, levels=self._draft.known, means=means)

    def recall(self, learnt: Learnt) -> None:
        """Believe what was learnt of the pair in an earlier start.

        Drafting is tried once all the same: this time's texts may be easier to predict.
        """
        self._verify.recall(learnt.verify)
        self._draft.recall(learnt.levels)
        for name, mean in self._means.items():
            if known := learnt.means.get(name):
                mean.recall(known)
        for name, by_kind in self._means_by_kind.items():
            by_kind.recall(name, learnt.means)
        self.switch.weigh(self._plain)
        self.switch.try_again()

    def begin(self) -> None:
        """Start a new answer: what it is like its own rounds will tell."""
        for mean in self._means_by_kind.values():
            mean.begin()
        self._reading.begin()
        self._opening = True

    def turn_to(self, kind: TextKind) -> None:
        """Go by what is known of this kind of text: it is what the answer goes on with."""
        if kind is not self._kind:
            self._kind = kind
            self._turn()

    @property
    def _text(self) -> str:
        """Name of what is told apart of texts."""
        return self._kind

    def _turn(self) -> None:
        """Turn all beliefs to the kind of text."""
        for mean in self._means_by_kind.values():
            mean.turn_to(self._text)
        self.switch.weigh(self._plain)

    @property
    def _plain(self) -> float:
        """Seconds of a round of the target alone."""
        return self._verify.of(1)

    @property
    def _means(self) -> dict[str, Mean]:
        """Beliefs that hold for all text, by name."""
        return self._reading.means

    @property
    def _means_by_kind(self) -> dict[str, MeanByKind]:
        """Beliefs that depend on the kind of text, by name."""
        return self._acceptance.means | self.switch.means_by_kind


def best_part(
    tree: TokenTree, verify: Seconds, rate: float, trust: float, *, least: int = 0
) -> TokenTree:
    """Return as many of a tree's best nodes as are worth their rows.

    Args:
        tree: what is drafted.
        verify: seconds of a target forward by its rows.
        rate: tokens that a second is worth.
        trust: factor from the draft's probabilities to those of acceptance.
        least: drafted nodes to keep in any case, as far as there are any.
    """
    probs = [min(trust * exp(score), 1.0) for score in tree.scores[1:]]
    worths = [
        tokens - rate * verify(rows)
        for rows, tokens in enumerate(accumulate(probs, initial=1.0), start=1)
    ]
    kept = range(min(least, tree.drafted), len(worths))
    return tree.best(max(kept, key=worths.__getitem__))


def promised(tree: TokenTree) -> float:
    """Accepted tokens that the draft's own probabilities promise of a tree."""
    return sum(exp(score) for score in tree.scores[1:])
