"""Forwards timed in turns, within a time that is set beforehand, called off at any of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from engine.errors import Cancelled
from engine.hardware.calibration.small_model import Sample

LONGEST_S = 0.15
"""A forward that would take longer is left out: a stop has to take effect meanwhile."""

MOST_ROUNDS = 30

Progress = Callable[[str, float], None]
"""Told what is being done, in words, and which part of the whole is over."""


class TimedModel(Protocol):
    """What `SmallModel` offers to be timed."""

    def run(self, rows: int, context: int) -> None:
        """One forward."""
        ...

    def sample(self, rows: int, context: int, seconds: float) -> Sample:
        """What it went through."""
        ...


@dataclass(frozen=True, slots=True)
class TimedForward:
    """A forward that is timed again and again."""

    model: TimedModel
    rows: int
    context: int


@dataclass(slots=True)
class Course:
    """The whole calibration on its way: what time it has, what of it is over.

    Attributes:
        total_s: of all stages together.
    """

    total_s: float
    clock: Callable[[], float]
    progress: Progress
    cancelled: Callable[[], bool]
    _before_s: float = 0.0
    _stage: str = ""
    _stage_s: float = 0.0
    _allowed_s: float = 0.0
    _began: float = 0.0

    def begin(self, stage: str, seconds: float, allowed: float | None = None) -> None:
        """The next stage, planned to take so long; now it may take as long as is `allowed`."""
        self._before_s += self._stage_s
        self._stage, self._stage_s, self._began = stage, seconds, self.clock()
        self._allowed_s = seconds if allowed is None else allowed
        self.check()

    def check(self) -> None:
        """Tell how far it is.

        Raises:
            Cancelled: nobody wants it any more.
        """
        if self.cancelled():
            raise Cancelled
        within = min((self.clock() - self._began) / self._allowed_s, 1) if self._allowed_s else 0
        done = self._before_s + within * self._stage_s
        self.progress(self._stage, min(done / self.total_s, 1.0))

    @property
    def left(self) -> float:
        """Seconds of the stage."""
        return self._began + self._allowed_s - self.clock()

    def seconds(self, work: Callable[[], None]) -> float:
        """How long `work` takes."""
        self.check()
        start = self.clock()
        work()
        return self.clock() - start


@dataclass(slots=True)
class Timings:
    """Seconds of forwards, which take turns: so every model comes when caches hold the others."""

    course: Course
    spent: dict[TimedForward, list[float]] = field(default_factory=dict)

    def first(self, models: Sequence[tuple[TimedModel, int]], rows: Sequence[int]) -> None:
        """Time every model once behind its context, over ascending rows.

        Rows that take too long are left out.
        """
        for model, _ in models:
            self.course.seconds(partial(model.run, 1, 0))  # threads awake, pages in place
        per_row: dict[tuple[TimedModel, int], float] = {}
        for count in rows:
            for model, context in models:
                known = per_row.get((model, context), 0.0)
                if count * known <= LONGEST_S:
                    found = self._time(TimedForward(model, count, context)) / count
                    per_row[model, context] = min(known or found, found)

    def repeat(self) -> None:
        """Again and again, as long as the stage has time; long forwards less often."""
        fair = (self.course.left + sum(map(sum, self.spent.values()))) / len(self.spent)
        for _ in range(MOST_ROUNDS):
            for forward, spent in self.spent.items():
                if self.course.left <= 0:
                    return
                if sum(spent) < fair:
                    self._time(forward)

    def samples(self, models: Collection[tuple[TimedModel, int]]) -> list[Sample]:
        """What each forward of these takes if nothing comes between."""
        return [
            forward.model.sample(forward.rows, forward.context, undisturbed(spent))
            for forward, spent in self.spent.items()
            if (forward.model, forward.context) in models
        ]

    def _time(self, forward: TimedForward) -> float:
        seconds = self.course.seconds(partial(forward.model.run, forward.rows, forward.context))
        self.spent.setdefault(forward, []).append(seconds)
        return seconds


def undisturbed(spent: Sequence[float]) -> float:
    """The lower quartile: other programs make a forward longer, nothing makes it shorter."""
    return sorted(spent)[(len(spent) - 1) // 4]
