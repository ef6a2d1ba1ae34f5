"""How much of a conversation a draft reads before it drafts, and when: a price against a gain.

Reading is not free: a draft of a third of the target's size takes as long for twenty tokens as the
target for one. A short answer to a long prompt never earns that back. So a draft reads everything
only where that costs a small part of what drafting should save in the rest of the answer, and else
the last few tokens. What is written next depends mostly on these, and the answer itself joins them
as it grows; where that is not enough, as in summaries, everything is read once the answer has gone
on for so long without drafts that it would have been worth it.
"""

from __future__ import annotations

from engine.speculative.costs import Mean

USUAL_ANSWER = 60.0
"""Tokens of an answer, as long as none was written."""
LEAST = 16
"""Fewer tokens than this are not worth beginning with."""
SHORT = 48
"""At least so many are read where drafting was asked for."""
_ALL, _SOME = 0.25, 0.125
"""Share of what drafting should save in the rest of an answer that reading may take: reading
everything, and reading the end only."""
_LEAST_SAVED = 0.1
"""Share of the plain time that drafting is taken to save at least, where it was asked for."""
_RENT = 3.0
"""Everything is read once the target has decoded for so many times as long as that takes: as one
rents skis until the rent paid equals their price, where drafting saves a third."""


class Reading:
    """Prices the reading of one pair's draft; what it has learnt outlives the answer.

    Args:
        pace: seconds for which the draft is expected to read a token.

    Attributes:
        pace: as measured.
        share: share of an answer that a token is. Its mean counts short answers most, in which
            reading costs most.
        begun: whether anything was read for this answer.
    """

    __slots__ = ("_copied", "_written", "begun", "pace", "share")

    def __init__(self, pace: float) -> None:
        self.pace = Mean(pace, 0.1)
        self.share = Mean(1 / USUAL_ANSWER, 2.0)
        self.begun = False
        self._written = self._copied = 0

    @property
    def means(self) -> dict[str, Mean]:
        """All of its means by name."""
        return {"reading": self.pace, "share": self.share}

    def begin(self) -> None:
        """Start a new answer, and learn how long the last one was."""
        if self._written:
            self.share.add(1 / self._written)
        self._written, self._copied, self.begun = 0, 0, False

    def wrote(self, tokens: int, *, copied: bool) -> None:
        """Note tokens of the answer; `copied`: lookup has drafted them, which needs no reading."""
        self._written += tokens
        self._copied += copied * tokens

    def learn(self, tokens: int, seconds: float) -> None:
        """Note that so many tokens were read in so many seconds."""
        self.begun = True
        self.pace.add(seconds / tokens)

    def price(self, tokens: int) -> float:
        """Return the seconds that reading so many tokens takes."""
        return tokens * (self.pace.value or 0.0)

    def saves(self, remaining: int, plain: float, gain: float) -> float:
        """Return the seconds that drafting should save in the rest of the answer.

        That is taken to be as long as a usual answer's, or as what is written already.

        Args:
            remaining: tokens that may still be written.
            plain: seconds of a token without drafts.
            gain: speed of drafting in plain speeds; infinite: all of that time counts.
        """
        usual = 1 / (self.share.value or 1.0)
        rest = min(max(usual - self._written, self._written), remaining)
        return max(1 - 1 / gain, _LEAST_SAVED) * plain * rest

    def to_begin(self, missing: int, saves: float, plain: float, *, forced: bool) -> int:
        """Return how many of the missing tokens to begin with: all, the last ones, or none so far.

        Args:
            missing: tokens that are not read.
            saves: seconds that drafting should save.
            plain: seconds of a token without drafts.
            forced: whether it has to draft, however short the answer is so far.
        """
        pace = self.pace.value or 1e-9
        if missing * pace <= _ALL * saves:
            return missing
        affords = int(_SOME * saves / pace)
        if forced:
            affords = max(affords, SHORT)
        elif affords < LEAST:
            affords = LEAST if self._written * plain >= 2 * self.price(LEAST) else 0
        return min(affords, missing)

    def is_due(self, missing: int, remaining: int, plain: float) -> bool:
        """Tell whether the answer is, and may still become, so long that all would be worth it."""
        own = min(self._written - self._copied, remaining)
        return own * plain >= _RENT * self.price(missing)
