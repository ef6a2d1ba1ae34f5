"""State that the views of the panel share: the time on show, frozen or not, and one cursor."""

from __future__ import annotations

import math
from enum import StrEnum

from PySide6.QtCore import QObject, Signal

from app.performance.model import PerformanceModel
from app.performance.tally import AnswerTally
from app.performance.timeline import SPANS_S, Stretch, begin_of, end_of
from engine.events import RoundFinished
from engine.language import later

_SHORTEST_ANSWER_S = 5.0


class Window(StrEnum):
    """Spans of time that the graphs show."""

    MINUTE = later("1 min")
    FIVE = later("5 min")
    ANSWER = later("Answer")


_SECONDS = {Window.MINUTE: 60.0, Window.FIVE: 300.0}


class Sight(QObject):
    """The present as the model knows it, or the moment in which it was frozen."""

    changed = Signal()
    """Another stretch of time is shown: everything is to be painted anew."""
    scrolled = Signal()
    """The timeline shows another stretch."""
    pointed = Signal()
    """The cursor has moved."""

    def __init__(self, model: PerformanceModel, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.model = model
        self.window = Window.MINUTE
        self.frozen = False
        self.now = -math.inf
        self.tally: AnswerTally | None = None
        self.timeline, self.written = model.timeline, model.written
        self.cursor: float | None = None
        """The moment that is pointed at."""
        self.rounds: tuple[RoundFinished, ...] = ()
        """The rounds that were under way then."""
        self._began: float | None = None
        self._ended: float | None = None
        self._span: float | None = None
        self._end: float | None = None

    def follow(self) -> None:
        """Look at the present, unless it is frozen."""
        if self.frozen:
            return
        model = self.model
        if model.timeline is not self.timeline:
            self._end = None
            self.point(None)
        self.now, self.tally, self.timeline = model.now, model.tally, model.timeline
        self.written = model.written
        self._began, self._ended = model.answer_began, model.answer_ended

    # -- the graphs ------------------------------------------------------------------------

    def show(self, window: Window) -> None:
        """Choose how far back the graphs show."""
        self.window = window
        self.changed.emit()

    def freeze(self, *, frozen: bool) -> None:
        """Keep the picture as it is, or go on."""
        self.frozen = frozen
        if frozen and self._end is None:
            self._end = self.timeline.end
        if not frozen:
            self._end = None
            self.follow()
        self.changed.emit()

    @property
    def bounds(self) -> tuple[float, float]:
        """First and last moment of the graphs; those of an answer stop with it."""
        seconds, end = _SECONDS.get(self.window), self.now
        if seconds is None:
            seconds = _SHORTEST_ANSWER_S
            end = self.now if self._ended is None else self._ended
            if self._began is not None and math.isfinite(end):
                seconds = max(end - self._began, seconds)
        return end - seconds, end

    # -- the timeline ----------------------------------------------------------------------

    @property
    def span(self) -> float:
        """Seconds that the timeline shows."""
        suitable, end = self.timeline.suitable_span(), self._right
        if self._span is None or end is None:
            return suitable
        return min(self._span, max(self.timeline.longest_span(end), suitable))

    @property
    def _right(self) -> float | None:
        return self.timeline.end if self._end is None else self._end

    @property
    def lags(self) -> float:
        """Return the seconds that the timeline's right edge is behind the newest round."""
        newest = self.timeline.end
        return 0.0 if self._end is None or newest is None else max(newest - self._end, 0.0)

    def stretch(self, width: float) -> Stretch | None:
        """Return the stretch that a timeline of so many pixels shows; None without any round."""
        end = self._right
        return None if end is None else Stretch(end - self.span, end, width)

    def zoom(self, steps: int, keep: float | None = None) -> None:
        """Show less time (steps above 0) or more; `keep` is the moment that stays in its place."""
        view = self.stretch(1.0)
        if view is None:
            return
        span = self.span
        longer = [s for s in SPANS_S if s > span * 1.001]
        shorter = [s for s in reversed(SPANS_S) if s < span * 0.999]
        choice = shorter if steps > 0 else longer
        if not choice:
            return
        wanted = choice[min(abs(steps), len(choice)) - 1]
        self._span = wanted
        if keep is not None and self._end is not None:
            self._end = keep + (view.end - keep) * self.span / span
        self.scrolled.emit()

    def go_to(self, end: float | None) -> None:
        """Move the timeline's right edge; None follows the newest round again."""
        newest = self.timeline.end
        if end is None or newest is None or (end >= newest and not self.frozen):
            self._end = newest if self.frozen else None
        else:
            start = self.timeline.start or 0.0
            self._end = min(max(end, start + self.span), newest)
        self.scrolled.emit()

    def reveal(self, done: RoundFinished) -> None:
        """Move the timeline, if need be, so that a round can be seen."""
        view = self.stretch(1.0)
        if view is None:
            return
        if end_of(done) > view.end or begin_of(done) < view.start:
            self.go_to(end_of(done) + 0.3 * self.span)

    # -- the cursor ------------------------------------------------------------------------

    def point(self, at: float | None, rounds: tuple[RoundFinished, ...] = ()) -> None:
        """Put the cursor on a moment, and on the rounds that were under way; None takes it away."""
        if at != self.cursor or rounds != self.rounds:
            self.cursor, self.rounds = at, rounds
            self.pointed.emit()

    def point_at(self, start: float, end: float) -> None:
        """Put the cursor on a short stretch of time and whatever was under way in it."""
        self.point((start + end) / 2, tuple(self.timeline.between(start, end)))

    def point_round(self, done: RoundFinished) -> None:
        """Put the cursor on a round."""
        self.point((done.verify.start + done.verify.end) / 2, (done,))

    def walk(self, step: int) -> None:
        """Point at the round before or after the one pointed at; the newest to begin with."""
        if not self.timeline.rounds:
            return
        if self.rounds:
            done = self.timeline.neighbour(self.rounds[-1 if step > 0 else 0], step)
        else:
            done = self.timeline.rounds[-1]
        self.reveal(done)
        self.point_round(done)
