"""The draft lane: a thread that drafts ahead of the committed tokens while the target verifies.

It always computes what is likeliest (`Speculation`); the engine thread takes what there is, has it
verified and commits (DuoDecoding, arXiv 2503.00784).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from engine.backend.decoder import Decoder
from engine.backend.state_pool import StatePool
from engine.speculative.costs import StepSeconds
from engine.speculative.drafters.drafter import DraftContext, Drafter
from engine.speculative.lane.following import AT_ONCE, Following, Lately, Outlook
from engine.speculative.lane.lane_model import LaneModel
from engine.speculative.lane.speculation import LanePace

__all__ = ["DraftLane", "Following", "Lately", "Outlook"]


class DraftLane:
    """Drafts for one loaded target, answer by answer.

    Args:
        name: name of the draft model for people.
        draft: the draft model.
        pool: keeps its states.
        others: drafters that cost next to nothing, whose proposals are added.
    """

    def __init__(
        self, name: str, draft: Decoder, pool: StatePool, others: Sequence[Drafter] = ()
    ) -> None:
        self.name = " + ".join([*(other.name for other in others), name])
        self._draft, self._pool = draft, pool
        self._others = tuple(others)
        self._step_seconds = StepSeconds()
        self._last: Following | None = None

    @contextmanager
    def following(
        self, context: DraftContext, pace: LanePace | None = AT_ONCE
    ) -> Iterator[Following]:
        """Draft for one answer, beginning with its prompt; until the block ends.

        Whatever it has computed of what was committed is kept for the next answer.

        Args:
            context: the answer.
            pace: to begin with; None: nothing is done before there is one.

        Raises:
            RuntimeError: the lane follows an answer already.
        """
        if self._last is not None and self._last.alive:
            raise RuntimeError("the draft lane is following another answer")
        following = self._last = Following(
            LaneModel(self._draft, self._pool), self._others, self._step_seconds, context, pace
        )
        following.start()
        try:
            yield following
        except BaseException:
            following.stop()
            raise
        following.stop()
        following.check()
