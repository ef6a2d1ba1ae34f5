"""A draft lane that is told what to say, and what steers it; both outlive an answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from engine.backend.decoder import Decoder
from engine.backend.round import Round
from engine.backend.state_pool import StatePool
from engine.bench.lane_script import LaneDraft, LanePrompter, Lines
from engine.plan.expectation import Expectation
from engine.speculative.decoding import Decoding
from engine.speculative.drafters.drafter import DraftContext
from engine.speculative.lane.draft_lane import DraftLane, Following
from engine.speculative.lane_controller import LaneController
from engine.speculative.parallel import parallel


class ScriptedLane:
    """Drafts in parallel, come what may.

    Args:
        draft: the draft model.
        states: keeps its states.
        expected: what the controller is told.
    """

    def __init__(
        self, draft: Decoder, states: StatePool, expected: Expectation | None = None
    ) -> None:
        self._draft = draft if isinstance(draft, LaneDraft) else LaneDraft(draft)
        self._lane = DraftLane("draft", self._draft, states)
        self._controller = LaneController(expected, ahead=True)

    @contextmanager
    def rounds(
        self, decoding: Decoding, lines: Lines | None, steps: list[tuple[int, float]] | None = None
    ) -> Iterator[Iterator[Round]]:
        """One answer, its prompt included, until the block ends.

        Args:
            decoding: the target's side.
            lines: what the draft says; None: what it says itself.
            steps: gets nodes and seconds of each of its steps that was not cancelled.
        """
        self._draft.lines = lines
        sampler = LanePrompter(lines) if lines else decoding.sampler
        context = DraftContext(decoding.tokens, sampler, decoding.cancelled)
        with self._lane.following(context, pace=None) as following:
            for _ in decoding.prefill():
                pass
            listening = _Listening(following, [] if steps is None else steps)
            yield parallel(decoding, listening, self._controller)


class _Listening:
    """A followed lane; what its steps took is noted on the way to the controller."""

    def __init__(self, lane: Following, steps: list[tuple[int, float]]) -> None:
        self._lane, self._steps = lane, steps
        self.set_pace, self.outlook, self.wait = lane.set_pace, lane.outlook, lane.wait
        self.tree, self.verifying, self.commit = lane.tree, lane.verifying, lane.commit

    @property
    def ready(self) -> bool:
        """As the lane."""
        return self._lane.ready

    def step_times(self) -> list[tuple[int, float, float]]:
        """As the lane."""
        times = self._lane.step_times()
        self._steps.extend((nodes, seconds) for nodes, seconds, _ in times)
        return times
