"""The parallel loop in virtual time: its speculation and its decisions, with a trace for models."""

from __future__ import annotations

from collections.abc import Sequence

from engine.backend.round import Candidates
from engine.backend.tree import TokenTree
from engine.bench.lanes.script import CANDIDATES, MISSED, Played, Times
from engine.plan.plan import BUCKETS
from engine.speculative.costs import Mean
from engine.speculative.lane.speculation import LanePace, Speculation
from engine.speculative.pacing import LaneCosts, best_part, pace, worth_waiting

_MOST = BUCKETS[-1] - 1
"""Drafted nodes of a verification."""
_FORGET = 0.95
_WRONG = CANDIDATES
"""Stands for a token that the draft does not think of."""


def simulate_trace(
    trace: Sequence[int], candidates: Candidates, times: Times, *, overlap: bool = True
) -> Played:
    """Play the parallel loop until the trace ends.

    Args:
        trace: the rank of the right token among the draft's candidates at every position, or
            MISSED.
        candidates: tokens 0, 1, ... with the logs of the chances that the draft gives them.
        times: of both lanes.
        overlap: whether the draft goes on while the target verifies.
    """
    return _Loop(trace, candidates, times, overlap=overlap).play()


class _Loop:
    """Both lanes; `now` is when the target became idle, or an event of the draft lane after it."""

    def __init__(
        self, trace: Sequence[int], candidates: Candidates, times: Times, *, overlap: bool
    ) -> None:
        self._right = [rank if rank != MISSED else _WRONG for rank in trace]
        self._candidates, self._times, self._overlap = candidates, times, overlap
        self._speculation = Speculation(_WRONG)
        self._pace = LanePace()
        self._now = self._begun = 0.0
        self._ends: float | None = None
        self._goes_on = Mean(0.6, 6.0)
        self._tokens, self._seconds = Mean(keep=_FORGET), Mean(keep=_FORGET)

    def play(self) -> Played:
        """Round after round."""
        position, tokens, seconds = 0, list[int](), list[float]()
        last = len(self._right) - _MOST - 1
        while position < last:
            began, lanes = self._now, self._lanes()
            self._pace = pace(lanes, overlap=self._overlap)
            self._wait(lanes)
            tree = best_part(lanes, self._speculation.tree(_MOST))
            self._verify(len(tree))
            path = self._path(tree, position)
            self._commit(self._right[position : position + len(path)])
            position += len(path)
            self._tokens.add(len(path))
            self._seconds.add(self._now - began)
            tokens.append(position)
            seconds.append(self._now)
        return Played(tuple(tokens), tuple(seconds))

    def _lanes(self) -> LaneCosts:
        seconds = self._seconds.value
        rate = (self._tokens.value or 0.0) / seconds if seconds else 0.0
        goes_on = self._goes_on.value or 0.0
        return LaneCosts(self._times.verify, self._times.step, rate=rate, goes_on=goes_on)

    def _wait(self, lanes: LaneCosts) -> None:
        """Let the target be idle as long as the draft's step is worth it."""
        while self._begin() and self._ends is not None:
            promise, left = self._speculation.promise(self._pace), self._ends - self._now
            if not worth_waiting(lanes, promise, left, overlap=self._overlap):
                return
            self._finish()

    def _verify(self, rows: int) -> None:
        """The target is busy; the draft goes on meanwhile if it may."""
        free = self._now + self._times.verify(rows)
        while self._overlap and self._begin() and self._ends is not None and self._ends <= free:
            self._finish()
        self._now = free

    def _begin(self) -> bool:
        """Let the draft compute, if it does not; whether it does."""
        if self._ends is None:
            step = self._speculation.begin_step(self._pace)
            if step is not None:
                self._begun, self._ends = self._now, self._now + self._times.step(len(step.nodes))
        return self._ends is not None

    def _finish(self) -> None:
        """The step has ended; all its nodes have the same candidates."""
        step = self._speculation.step
        if step is not None and self._ends is not None:
            self._now = self._ends
            found = [self._candidates] * len(step.nodes)
            self._speculation.end_step(found, self._now - self._begun)
            self._ends = None

    def _path(self, tree: TokenTree, position: int) -> list[int]:
        """The nodes of the tree after which a token is committed: the root, and accepted ones."""
        children, path = tree.children(), [0]
        while below := children[path[-1]]:
            node = below.get(self._right[position + len(path) - 1])
            self._goes_on.add(node is not None)
            if node is None:
                break
            path.append(node)
        return path

    def _commit(self, tokens: Sequence[int]) -> None:
        """Move the root; a step that nothing can come of any more is given up."""
        self._speculation.advance(tokens)
        self._speculation.path.clear()
        step = self._speculation.step
        if step is not None and step.hopeless:
            self._speculation.end_step([], self._now - self._begun)
            self._ends = None
