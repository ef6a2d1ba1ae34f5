"""Both lanes of the parallel loop on paper: a clock that nobody has to wait for.

The loop, the controller and the speculation are the real ones. The target knows its text, the draft
is right where a script says so, and a verification or a step takes as long as a pair says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import log
from typing import Any

import numpy as np
import pytest

from engine.backend.round import Candidates, Round, Verified
from engine.backend.tree import TokenTree, follow
from engine.events import Interval
from engine.speculative import loops
from engine.speculative.controller import Controller
from engine.speculative.costs import DraftCosts
from engine.speculative.draft_tree import DraftPace, DraftTree, Node
from engine.speculative.draft_worker import DraftActivity, Outlook

VOCAB = 1000


@dataclass(slots=True)
class Clock:
    """Seconds, as somebody lets them pass."""

    now: float = 0.0

    def read(self) -> float:
        return self.now


@dataclass(frozen=True, slots=True)
class PaperPair:
    """A target and a draft.

    Attributes:
        verify: rows -> seconds of a target forward.
        step: nodes -> seconds of a step of the draft.
        acceptance: chance that the draft's first choice is right; its second is in half of the
            other cases.
        slowed: how much longer a target forward takes while the draft computes beside it.
        catching_up: seconds that the draft needs for the prompt.
    """

    verify: Callable[[int], float]
    step: Callable[[int], float]
    acceptance: float
    slowed: float = 1.0
    catching_up: float = 0.0


@dataclass(slots=True)
class PaperLane:
    """A draft lane whose steps end when the clock says so."""

    pair: PaperPair
    clock: Clock
    answer: Sequence[int]
    rng: np.random.Generator
    costs: DraftCosts
    stuck: bool = False
    busy: bool = False
    computed: float = 0.0
    paces: list[DraftPace | None] = field(default_factory=list)
    waits: int = 0
    _pace: DraftPace | None = None
    _speculation: DraftTree = field(default_factory=lambda: DraftTree(0))
    _committed: int = 0
    _ends: float | None = None
    _begins: float = 0.0
    _spans: list[Interval] = field(default_factory=list)
    _choices: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        draws = self.rng.random((len(self.answer) + 100, 2))
        right = draws[:, 0] < self.pair.acceptance
        self._choices = np.where(right, 0, np.where(draws[:, 1] < 0.5, 1, 2)).tolist()

    def set_pace(self, pace: DraftPace | None) -> None:
        self.paces.append(pace)
        self._pace = pace
        self._go_on(self.clock.now)

    @property
    def ready(self) -> bool:
        return self.clock.now >= self.pair.catching_up

    def outlook(self) -> Outlook:
        if self._pace is None or not self.ready:
            return Outlook(0.0, None)
        promise = self._speculation.promise(self._pace)
        if self._ends is None:
            return Outlook(promise, self.pair.step(1) if promise else None)
        step = self._speculation.step
        assert step is not None
        usual = self._begins + self.pair.step(len(step.nodes))
        return Outlook(promise, abs(usual - self.clock.now))

    def wait(self, seconds: float) -> None:
        assert 0 < seconds <= loops.PATIENCE_S
        self.waits += 1
        self._go_on(self.clock.now)
        end = self.clock.now + seconds
        if self._ends is not None and self._ends <= end:
            end = max(self._ends, self.clock.now)
        self.clock.now = end
        self._go_on(end)

    def tree(self, most: int) -> TokenTree:
        return self._speculation.tree(most)

    @contextmanager
    def verifying(self) -> Iterator[None]:
        self._go_on(self.clock.now)
        self.busy = True
        yield
        self._go_on(self.clock.now)
        self.busy = False

    def commit(self, tokens: Sequence[int]) -> DraftActivity:
        self._go_on(self.clock.now)
        speculation = self._speculation
        hit = speculation.advance(tokens)
        self._committed += len(tokens)
        if speculation.step is not None and speculation.step.hopeless:
            speculation.end_step([], self.clock.now - self._begins)
            self._end(self.clock.now)
        merit = speculation.take_merit()
        spans, self._spans = tuple(self._spans), []
        return DraftActivity(spans, merit.useful, merit.wasted, hit)

    missing = 0

    def reading_times(self) -> list[tuple[int, float]]:
        return []

    def share(self, seconds: float) -> float:
        """Of so many seconds of a verification, those in which a step runs as well."""
        if self._pace is not None and self._pace.overlap:
            return seconds
        return 0.0 if self._ends is None else min(self._ends - self.clock.now, seconds)

    def _go_on(self, now: float) -> None:
        """Begin and end steps until the present."""
        at = self._begins if self._ends is None else self._ends
        at = max(at, self.pair.catching_up)
        while True:
            if self._ends is not None:
                if self._ends > now:
                    return
                at, step = self._ends, self._speculation.step
                assert step is not None
                found = [self._candidates(node) for node in step.nodes]
                self._speculation.end_step(found, at - self._begins)
                self.costs.add(len(step.nodes), at - self._begins)
                self._end(at)
            if self._pace is None or now < self.pair.catching_up:
                return
            if self.busy and not self._pace.overlap:
                self._begins = now
                return
            step = self._speculation.begin_step(self._pace)
            if step is None:
                self._begins = now
                return
            self._begins = at
            self._ends = at + (1e9 if self.stuck else self.pair.step(len(step.nodes)))

    def _end(self, at: float) -> None:
        self._spans.append(Interval(self._begins, at))
        self.computed += at - self._begins
        self._ends, self._begins = None, at

    def _candidates(self, node: Node) -> Candidates:
        depth, above = 0, node
        while above is not self._speculation.root and above.parent is not None:
            above, depth = above.parent, depth + 1
        place = self._committed + depth
        alpha = self.pair.acceptance
        if place >= len(self.answer):
            return [(0, log(alpha))]
        right, wrong = self.answer[place], (self.answer[place] + 1) % VOCAB
        order = [(right, wrong), (wrong, right), (wrong, (wrong + 1) % VOCAB)]
        first, second = order[self._choices[place]]
        return [(first, log(alpha)), (second, log(max((1 - alpha) / 2, 1e-6)))]


@dataclass(slots=True)
class PaperDecoding:
    """A target that knows what it says."""

    lane: PaperLane
    stop_at: int | None = None
    tokens: list[int] = field(default_factory=lambda: [0])

    @property
    def remaining(self) -> int:
        return len(self.lane.answer) - len(self.tokens) + 1

    def cancelled(self) -> bool:
        return self.stop_at is not None and len(self.tokens) > self.stop_at

    def verify(self, tree: TokenTree) -> Round:
        pair, clock = self.lane.pair, self.lane.clock
        start, seconds = clock.now, pair.verify(len(tree))
        clock.now += seconds + self.lane.share(seconds) * (pair.slowed - 1)
        assert tree.tokens[0] == self.tokens[-1], "it begins at the last committed token"
        assert max(tree.depths) < self.remaining, "nothing is drafted beyond the end"
        ahead = self.lane.answer[len(self.tokens) - 1 :]
        path = follow(tree.tokens, tree.parents, ahead, 0)
        offered = len(path) + bool(set(tree.parents) & {path[-1] if path else 0})
        committed = tuple(ahead[: len(path) + 1])
        self.tokens += committed
        verified = Verified((0, *path), committed, len(path), offered)
        return Round(tree, verified, Interval(start, clock.now))


@dataclass(slots=True)
class Written:
    """An answer, how it came about and how fast."""

    tokens: list[int]
    rounds: list[Round]
    lane: PaperLane
    tokens_per_s: float


def write(
    monkeypatch: pytest.MonkeyPatch,
    pair: PaperPair,
    controller: Controller,
    tokens: int = 400,
    **wishes: Any,
) -> Written:
    """One answer by the parallel loop."""
    clock = Clock()
    monkeypatch.setattr(loops, "perf_counter", clock.read)
    rng = np.random.default_rng(wishes.pop("seed", 3))
    stop_at = wishes.pop("stop_at", None)
    answer = rng.integers(1, VOCAB, tokens).tolist()
    lane = PaperLane(pair, clock, answer, rng, controller.costs, **wishes)
    decoding: Any = PaperDecoding(lane, stop_at)
    controller.begin()
    rounds = list(loops.parallel(decoding, lane, controller))
    written = decoding.tokens[1:]
    assert written == answer[: len(written)]
    assert [token for done in rounds for token in done.tokens] == written
    return Written(
        written, rounds, lane, (len(written) - 1) / (max(clock.now - rounds[0].verify.end, 1e-9))
    )
