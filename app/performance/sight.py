"""State that the views of the panel share: the time on show, frozen or not, and one cursor."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from PySide6.QtCore import QObject, Signal

from app.performance.model import PerformanceModel
from app.performance.tally import AnswerTally
from app.performance.timeline import SPANS_S, Stretch, begin_of, end_of
from app.performance.verdict import SpeedVerdict
from engine.commands import Mode
from engine.events import RoundFinished
from engine.language import later, tr

_SHORTEST_ANSWER_S = 5.0


class Window(StrEnum):
    """Spans of time that the graphs show."""

    MINUTE = later("1 min")
    FIVE = later("5 min")
    ANSWER = later("Answer")


_SECONDS = {Window.MINUTE: 60.0, Window.FIVE: 300.0}


@dataclass(frozen=True, slots=True)
class Whose:
    """The answer on show.

    Attributes:
        question: what it answers.
        model: name of the model that wrote it; empty where that is the present one.
        at: Unix time; None while it is written.
    """

    question: str = ""
    model: str = ""
    at: float | None = None

    @property
    def lines(self) -> list[str]:
        """Return what it answers, and where it comes from, as far as that is known."""
        question = " ".join(self.question.split())
        said = tr("Answer to “{question}”").format(question=question) if question else ""
        when = "" if self.at is None else _day(self.at)
        origin = " · ".join(each for each in (self.model, when) if each)
        return [each for each in (said, origin) if each]

    @property
    def words(self) -> str:
        """Return whose answer it is; empty where nothing is known."""
        return " · ".join(self.lines)


def _day(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M")


class Sight(QObject):
    """The present as the model knows it, or the moment in which it was frozen.

    The answer may be another one than the model's: one that was written earlier.
    """

    changed = Signal()
    """Another stretch of time is shown: everything is to be painted anew."""
    turned = Signal()
    """The present is looked at again; the next frame paints it."""
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
        self.kept: PerformanceModel | None = None
        """Account of the earlier answer on show; None: of what happens now."""
        self.whose = Whose()
        self._span: float | None = None
        self._end: float | None = None
        self._stopped: float | None = None
        """End of the newest round when the picture was frozen."""

    def follow(self) -> None:
        """Look at the present, unless it is frozen."""
        if self.frozen:
            return
        model, answer = self.model, self.kept or self.model
        if answer.timeline is not self.timeline:
            self._span = self._end = None
            self.point(None)
        self.now, self.tally, self.timeline = model.now, answer.tally, answer.timeline
        self.written = answer.written
        self._began, self._ended = model.answer_began, model.answer_ended

    def show_answer(self, kept: PerformanceModel | None, whose: Whose) -> None:
        """Look at the answer of an earlier account, or again at the one that is written now."""
        self.kept, self.whose, self.frozen, self._stopped = kept, whose, False, None
        self.follow()
        (self.turned if kept is None else self.changed).emit()

    @property
    def live(self) -> bool:
        """True if the answer on show is being written."""
        return self.kept is None and self.tally is not None and self.tally.stats is None

    @property
    def mode(self) -> Mode | None:
        """Return the mode that the answer was written in, where it is known."""
        stats = None if self.tally is None else self.tally.stats
        if stats is not None and stats.mode in set(Mode):
            return Mode(stats.mode)
        plan = self.model.plan
        return plan.mode if plan is not None and self.kept is None else None

    @property
    def verdict(self) -> SpeedVerdict | None:
        """Return what is said of the speed of the answer on show."""
        answer = self.kept or self.model
        return None if self.tally is None else answer.verdicts.get(self.tally.request_id)

    # -- the graphs ------------------------------------------------------------------------

    def show(self, window: Window) -> None:
        """Choose how far back the graphs show."""
        self.window = window
        self.changed.emit()

    def freeze(self, *, frozen: bool) -> None:
        """Keep the picture as it is, or go on."""
        self.frozen = frozen
        self._stopped = self.timeline.end if frozen else None
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
        """Seconds that the timeline shows: the whole answer unless a part was chosen."""
        whole = self._whole
        return whole if self._span is None else min(self._span, whole)

    @property
    def fits(self) -> bool:
        """True if the whole answer is on show."""
        return self.span >= self._whole

    @property
    def _whole(self) -> float:
        start, end = self.timeline.begun, self._newest
        return SPANS_S[0] if start is None or end is None else max(end - start, SPANS_S[0])

    @property
    def _newest(self) -> float | None:
        """The end of the newest round, or of what was it when the picture was frozen."""
        return self._stopped if self.frozen else self.timeline.end

    @property
    def lags(self) -> float:
        """Return the seconds that the timeline's right edge is behind the newest round."""
        view, newest = self.stretch(1.0), self.timeline.end
        return 0.0 if view is None or newest is None else max(newest - view.end, 0.0)

    def stretch(self, width: float) -> Stretch | None:
        """Return the stretch that a timeline of so many pixels shows; None without any round."""
        end = self._newest if self._end is None else self._end
        return None if end is None else Stretch(end - self.span, end, width)

    def zoom(self, steps: int, keep: float | None = None) -> None:
        """Show less time (steps above 0) or more; `keep` is the moment that stays in its place."""
        view, span = self.stretch(1.0), self.span
        if view is None:
            return
        whole = self._whole
        longer = [*(s for s in SPANS_S if span * 1.001 < s < whole), whole]
        shorter = [s for s in reversed(SPANS_S) if s < span * 0.999]
        choice = shorter if steps > 0 else longer
        if not choice:
            return
        wanted = choice[min(abs(steps), len(choice)) - 1]
        self._span = None if wanted >= whole else wanted
        follows = self.live and self._end is None
        if keep is not None and not follows:
            self._end = keep + (view.end - keep) * self.span / span
        self.go_to(self._end)

    def fit(self) -> None:
        """Show the whole answer."""
        self._span = None
        self.go_to(None)

    def go_to(self, end: float | None) -> None:
        """Move the timeline's right edge; None follows the newest round again."""
        newest = self._newest
        if end is None or newest is None or end >= newest:
            self._end = None
        else:
            start = self.timeline.begun or 0.0
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
