"""The parallel loop: the draft lane goes on while the target verifies (DuoDecoding).

Here is the target's lane. It takes the best part of what is drafted behind the committed tokens,
verifies it and tells the draft lane what it has committed; only that is shown or counted. An idle
target waits for a step of the draft where that is worth more than the time, and goes on with what
is there where it is not (arXiv 2503.00784: its P rounds).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from time import perf_counter
from typing import Protocol

from engine.backend.round import Round
from engine.backend.tree import TokenTree
from engine.plan.expectation import BUCKETS
from engine.speculative.decoding import Decoding
from engine.speculative.lane.draft_lane import Lately, Outlook
from engine.speculative.lane.speculation import Pace
from engine.speculative.lane_controller import LaneController

MOST_NODES = BUCKETS[-1] - 1
"""Drafted nodes of one verification."""
PATIENCE_S = 0.05
"""A waiting target looks up so often: the user may have stopped it."""
SHORTEST_WAIT_S = 0.001


class Lane(Protocol):
    """What the loop asks of a draft lane; see `engine.speculative.lane.draft_lane.Following`."""

    def set_pace(self, pace: Pace | None) -> None:
        """Go on like that; None: rest."""
        ...

    @property
    def ready(self) -> bool:
        """Whether the draft has read all committed tokens."""
        ...

    def outlook(self) -> Outlook:
        """What the running or next step promises, and the seconds until it ends; of one that is
        late ever more.
        """
        ...

    def wait(self, seconds: float) -> None:
        """Until a step ends or something else changes, at most so long."""
        ...

    def tree(self, most: int) -> TokenTree:
        """The likeliest of what is drafted behind the committed tokens."""
        ...

    def verifying(self) -> AbstractContextManager[None]:
        """The target is at work meanwhile."""
        ...

    def commit(self, tokens: Sequence[int]) -> Lately:
        """These tokens are committed; tells what was drafted since the last time."""
        ...

    def step_times(self) -> list[tuple[int, float, float]]:
        """Nodes, seconds and top chance of the steps that have ended since the last time."""
        ...


def parallel(decoding: Decoding, lane: Lane, controller: LaneController) -> Iterator[Round]:
    """Draft and verify at the same time (DuoDecoding).

    The first round is the target's alone. The draft begins behind it at the latest; before, where
    reading the prompt beside the target costs the first token no time. Where the user has stopped
    the answer nothing is verified any more.
    """
    controller.begin()
    first = True
    while decoding.remaining and not decoding.cancelled():
        start, ready = perf_counter(), lane.ready
        tree = TokenTree.root(decoding.tokens[-1])
        if not first:
            lane.set_pace(pace := controller.pace(ready=ready))
            if pace is not None and decoding.remaining > 1:
                _wait(decoding, lane, controller)
                if decoding.cancelled():
                    return
                tree = controller.prune(lane.tree(MOST_NODES).limited(decoding.remaining - 1))
        with lane.verifying():
            done = decoding.verify(tree)
        lately = lane.commit(done.tokens)
        controller.observe(done, perf_counter() - start, lane.step_times(), ready=ready)
        if first:
            lane.set_pace(controller.pace(ready=False))
        first = False
        yield replace(done, drafting=lately.drafting, useful=lately.useful, wasted=lately.wasted)


def _wait(decoding: Decoding, lane: Lane, controller: LaneController) -> None:
    """Let the target be idle as long as what the draft is at is worth more than that."""
    while not decoding.cancelled():
        outlook = lane.outlook()
        if outlook.left is None or not controller.worth_waiting(outlook):
            return
        lane.wait(min(max(outlook.left, SHORTEST_WAIT_S), PATIENCE_S))
