"""Forwards timed in turns, within a time that is set beforehand, called off at any of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from engine.devices.calibration.small_model import Sample
from engine.errors import Cancelled

LONGEST_S = 0.15
"""A forward that would take longer is left out: a stop has to take effect meanwhile."""

MOST_ROUNDS = 30

Progress = Callable[[str, float], None]
"""Told what is being done, in words, and which part of the whole is over."""


class TimedModel(Protocol):
    """The part of `SmallModel` that timing needs."""

    def run(self, rows: int, context: int) -> None:
        """Run one forward."""
        ...

    def sample(self, rows: int, context: int, seconds: float) -> Sample:
        """Return the sample of a forward that took so many seconds."""
        ...


@dataclass(frozen=True, slots=True)
class TimedForward:
    """A forward that is timed again and again."""

    model: TimedModel
    rows: int
    context: int


@dataclass(slots=True)
class Course:
    """Progress of a calibration, and the time it may take.

    Attributes:
        total_s: planned seconds of all stages together.
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
        """Begin the next stage, planned to take `seconds`; it may take `allowed`."""
        self._before_s += self._stage_s
        self._stage, self._stage_s, self._began = stage, seconds, self.clock()
        self._allowed_s = seconds if allowed is None else allowed
        self.check()

    def check(self) -> None:
        """Report progress.

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
        """Seconds that the stage has left."""
        return self._began + self._allowed_s - self.clock()

    def seconds(self, work: Callable[[], None]) -> float:
        """Return the seconds that `work` takes."""
        self.check()
        start = self.clock()
        work()
        return self.clock() - start


@dataclass(slots=True)
class Timings:
    """Seconds of forwards. Models take turns, so that each finds the caches filled by others."""

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
        """Time every forward again while the stage has time, long forwards less often."""
        fair = (self.course.left + sum(map(sum, self.spent.values()))) / len(self.spent)
        for _ in range(MOST_ROUNDS):
            for forward, spent in self.spent.items():
                if self.course.left <= 0:
                    return
                if sum(spent) < fair:
                    self._time(forward)

    def samples(self, models: Collection[tuple[TimedModel, int]]) -> list[Sample]:
        """Return a sample per timed forward of these models, at its undisturbed time."""
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
    """Return the lower quartile: other programs make a forward longer, nothing makes it shorter."""
    return sorted(spent)[(len(spent) - 1) // 4]
