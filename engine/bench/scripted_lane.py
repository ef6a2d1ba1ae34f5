"""A draft lane that is told what to say, and what steers it; both outlive an answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from engine.backend.decoder import Decoder
from engine.backend.round import Round
from engine.backend.state_pool import StatePool
from engine.bench.lane_script import LaneDraft, LaneLines, LanePrompter
from engine.plan.plan import Expectation
from engine.speculative.decoding import Decoding
from engine.speculative.drafters.drafter import DraftContext
from engine.speculative.lane.draft_lane import DraftLane
from engine.speculative.loops import parallel
from engine.speculative.parallel_controller import ParallelController


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
        self._controller = _Noting(expected, ahead=True)

    @contextmanager
    def rounds(
        self,
        decoding: Decoding,
        lines: LaneLines | None,
        steps: list[tuple[int, float]] | None = None,
    ) -> Iterator[Iterator[Round]]:
        """One answer, its prompt included, until the block ends.

        Args:
            decoding: the target's side.
            lines: what the draft says; None: what it says itself.
            steps: gets nodes and seconds of each of its steps that was not cancelled.
        """
        self._draft.lines, self._controller.steps = lines, steps
        sampler = LanePrompter(lines) if lines else decoding.sampler
        context = DraftContext(decoding.tokens, sampler, decoding.cancelled)
        with self._lane.following(context, pace=None) as following:
            for _ in decoding.prefill():
                pass
            yield parallel(decoding, following, self._controller)


class _Noting(ParallelController):
    """Steers as it would, and notes what the draft's steps took."""

    steps: list[tuple[int, float]] | None = None

    def observe(
        self, done: Round, seconds: float, steps: Iterable[tuple[int, float, float]], *, ready: bool
    ) -> None:
        ended = list(steps)
        if self.steps is not None:
            self.steps += [(nodes, spent) for nodes, spent, _ in ended]
        super().observe(done, seconds, ended, ready=ready)
